package journal

// Grant is the grant with this id, or nil.
func (s *State) Grant(id string) *GrantState { return s.grants[id] }

// Grants are all grants, in chain order.
func (s *State) Grants() []*GrantState { return s.GrantsFrom(0) }

// GrantsFrom are the grants after the first n, in chain order. New ones only
// ever come at the end.
func (s *State) GrantsFrom(n int) []*GrantState {
	return s.grantsOf(s.grantIDs[min(n, len(s.grantIDs)):])
}

// LimitedGrants are the grants that may end by themselves, since they have an
// expiry or came from elsewhere, in chain order.
func (s *State) LimitedGrants() []*GrantState { return s.grantsOf(s.limited) }

func (s *State) grantsOf(ids []string) []*GrantState {
	list := make([]*GrantState, len(ids))
	for i, id := range ids {
		list[i] = s.grants[id]
	}
	return list
}

// Memo keeps what a reader derives from the state with it: update is given what
// was kept before, nil at first, and returns what to keep and return. The fold
// neither reads nor changes it, so update catches up. Concurrent calls take
// turns.
func (s *State) Memo(update func(any) any) any {
	s.memoing.Lock()
	defer s.memoing.Unlock()
	s.memo = update(s.memo)
	return s.memo
}
