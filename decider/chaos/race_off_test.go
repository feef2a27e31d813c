//go:build !race

package chaos

var buildFlags []string
