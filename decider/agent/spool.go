package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"decisionjournal/journal"
)

// spooled is a result that the journal did not take, as it is kept on disk.
type spooled struct {
	Session string         `json:"session"`
	Result  journal.Result `json:"result"`
}

// spool keeps a result on disk, fsynced, until a later run appends it.
func (g *Guard) spool(body *journal.Result) error {
	if g.cfg.Spool == "" {
		return nil
	}
	raw, err := json.Marshal(spooled{g.cfg.Session, *body})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(g.cfg.Spool, 0o700); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%d.json", g.cfg.Session, body.Call, body.Attempt)
	f, err := os.CreateTemp(g.cfg.Spool, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(g.cfg.Spool, name)); err != nil {
		return err
	}
	return syncDir(g.cfg.Spool)
}

// syncDir makes the names in a directory last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sendSpooled appends the session's spooled results. A file goes once its
// result is in the chain, or the chain says that it has no place there.
func (g *Guard) sendSpooled(ctx context.Context) error {
	if g.cfg.Spool == "" {
		return nil
	}
	files, err := os.ReadDir(g.cfg.Spool)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		name := f.Name()
		if !strings.HasPrefix(name, g.cfg.Session+"-") || !strings.HasSuffix(name, ".json") {
			continue
		}
		if sendErr := g.sendFile(ctx, filepath.Join(g.cfg.Spool, name)); sendErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, sendErr))
		}
	}
	return err
}

func (g *Guard) sendFile(ctx context.Context, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var s spooled
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if s.Session != g.cfg.Session || !strings.HasPrefix(filepath.Base(file), s.Session+"-"+s.Result.Call) {
		return nil // another session whose name begins alike
	}
	if c := s.Result.Content; c != nil && (uint64(len(c)) != s.Result.Size || journal.Digest(c) != s.Result.Digest) {
		return errors.New("the file is damaged: size and digest are not those of the content")
	}
	err = g.retry(ctx, func(int) error {
		w := g.writer()
		return w.Append(ctx, g.st, w.Now(g.st), w.Event(&s.Result))
	})
	switch {
	case err == nil:
		g.notices = append(g.notices, fmt.Sprintf("the spooled result of call %s was appended", s.Result.Call))
	case errors.Is(err, journal.ErrInvalid):
		g.notices = append(g.notices, fmt.Sprintf("the spooled result of call %s was dropped: %v", s.Result.Call, err))
	default:
		return err
	}
	return os.Remove(file)
}
