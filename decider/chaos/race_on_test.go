//go:build race

package chaos

// buildFlags build the command as the tests are built.
var buildFlags = []string{"-race"}
