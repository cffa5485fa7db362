package explorer

import (
	"fmt"
	"slices"
	"strings"
)

// space is what is searched: the worlds of one kind, and what can happen in them.
type space[W any] struct {
	moves []string
	// variant is, for each move, the earlier one that it is a variant of: where that cannot be made, it cannot either. A
	// move of its own has its own index. Nil: there are no variants.
	variant []int
	// make makes one move, if it can be made, and says which promise it broke; "" is none.
	make     func(w *W, move int) (made bool, broken string)
	key      func(*W) uint64
	describe func(*W) string
	progress func(worlds, frontier, moves int)
}

// Found is a story that ends in a broken promise.
type Found struct {
	Broken string
	Story  []string
}

func (f *Found) String() string { return f.Broken + ":\n" + strings.Join(f.Story, "\n") }

// Result says how much was explored.
type Result struct {
	Worlds int
	// Complete: every world within the other bounds was visited.
	Complete bool
	Found    *Found
}

// parent is how a world was reached.
type parent struct {
	from int32
	move uint16
}

// search visits every world that can be reached, in the order of their distance, until a promise is broken.
func (s space[W]) search(start *W, limit int) Result {
	type node struct {
		w     *W
		index int32
	}
	frontier, parents := []node{{start, 0}}, []parent{{-1, 0}}
	seen := map[uint64]struct{}{s.key(start): {}}
	w, can := new(W), make([]bool, len(s.moves))
	for depth := 0; len(frontier) > 0; depth++ {
		var next []node
		for at, n := range frontier {
			frontier[at].w = nil
			for i := range s.moves {
				if s.variant != nil && s.variant[i] < i && !can[s.variant[i]] {
					continue
				}
				*w = *n.w
				made, broken := s.make(w, i)
				if can[i] = made; !made {
					continue
				}
				if broken != "" {
					return Result{Worlds: len(parents), Found: &Found{broken, s.story(*start, parents, parent{n.index, uint16(i)})}}
				}
				key := s.key(w)
				if _, ok := seen[key]; ok {
					continue
				}
				seen[key] = struct{}{}
				parents = append(parents, parent{n.index, uint16(i)})
				next = append(next, node{w, int32(len(parents) - 1)})
				w = new(W)
				if s.progress != nil && len(parents)%1_000_000 == 0 {
					s.progress(len(parents), len(frontier)-at+len(next), depth)
				}
				if len(parents) >= limit {
					return Result{Worlds: len(parents)}
				}
			}
		}
		frontier = next
	}
	return Result{Worlds: len(parents), Complete: true}
}

// story is how a world was reached, with its last move.
func (s space[W]) story(w W, parents []parent, last parent) (told []string) {
	moves := []uint16{last.move}
	for at := last.from; at > 0; at = parents[at].from {
		moves = append(moves, parents[at].move)
	}
	slices.Reverse(moves)
	told = append(told, "    "+s.describe(&w))
	for _, m := range moves {
		s.make(&w, int(m))
		told = append(told, fmt.Sprintf("  %s\n    %s", s.moves[m], s.describe(&w)))
	}
	return told
}
