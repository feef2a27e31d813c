//go:build race

package decider_test

const raceDetector = true
