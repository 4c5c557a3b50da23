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
	mu   sync.Mutex
	urls []string
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
