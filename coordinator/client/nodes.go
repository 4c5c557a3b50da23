package client

import (
	"slices"
	"strings"
	"sync"
)

// maxNodes bounds the number of learned URLs.
const maxNodes = 64

// nodes is the list of the nodes' URLs, the one to ask next first.
type nodes struct {
	mu     sync.Mutex
	urls   []string
	silent string // the last that could not be reached
}

func (n *nodes) first() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.urls[0]
}

func (n *nodes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.urls)
}

// pass moves a useless node behind the others, unless another request has done so.
func (n *nodes) pass(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.urls[0] == url {
		n.urls = append(n.urls[1:], url)
	}
}

// prefer moves the leader to the front, unless it could not be reached, as from outside its network: others forward.
func (n *nodes) prefer(leader string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.urls, leader); i > 0 && leader != n.silent {
		n.urls = slices.Insert(slices.Delete(n.urls, i, i+1), 0, leader)
	}
}

// fail notes that a node cannot be reached, and passes it.
func (n *nodes) fail(url string) {
	n.mu.Lock()
	n.silent = url
	n.mu.Unlock()
	n.pass(url)
}

// add appends unknown URLs.
func (n *nodes) add(urls []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, url := range urls {
		url = strings.TrimSpace(url)
		if url != "" && !slices.Contains(n.urls, url) && len(n.urls) < maxNodes {
			n.urls = append(n.urls, url)
		}
	}
}
