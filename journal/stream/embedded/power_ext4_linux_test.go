package embedded

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPowerLossOfADisk turns a real file system off under a host and those who
// append through it, at a random moment, and starts it again: nothing that was
// acknowledged is gone. It takes root and a loop device; TestPowerLoss does not.
func TestPowerLossOfADisk(t *testing.T) {
	disk, ok := newExt4(t, 64<<10)
	if !ok {
		return
	}
	random := rand.New(rand.NewPCG(uint64(number(t, powerSeed, 1)), 1))
	var before acks
	lost := tally{}
	for range number(t, powerRounds, 5) {
		acked := before.and(disk.losePower(t, 1+random.IntN(300)))
		disk.cycle(t)
		lost.add(check(t, disk.dir, acked))
		before = acked
	}
	t.Logf("the power went off %d times; of %d commits acknowledged by then %d are lost", lost.cuts, lost.acked, lost.lost)
}

// losePower runs writers until they have had n acknowledgements, and turns the
// disk off. What the writers are told from then on does not count: a machine
// without power tells nothing, while here a sync that is under way may end well.
func (disk *ext4) losePower(t *testing.T, n int) acks {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=writers", childDir+"="+filepath.Join(disk.dir, "j"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var told acks
	lines := bufio.NewScanner(out)
	for len(told.commits) < n && lines.Scan() {
		told.note(t, lines.Text())
	}
	if len(told.commits) < n {
		t.Fatalf("the writers ended after %d of %d commits: %v", len(told.commits), n, lines.Err())
	}
	disk.powerOff(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	return told
}
