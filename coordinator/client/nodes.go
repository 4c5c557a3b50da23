package client

import (
	"slices"
	"strings"
	"sync"
)

// maxNodes bounds the URLs that are learned.
const maxNodes = 64

// nodes are the URLs of the coordinator's nodes, the one to ask first in front.
type nodes struct {
	mu   sync.Mutex
	urls []string
}

func newNodes(urls []string) *nodes { return &nodes{urls: slices.Clone(urls)} }

func (n *nodes) leader() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.urls[0]
}

func (n *nodes) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.urls)
}

// pass puts a node that is of no use now behind the others, unless somebody has already.
func (n *nodes) pass(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.urls[0] == url {
		n.urls = append(n.urls[1:], url)
	}
}

// prefer puts a node, which need not be known yet, in front.
func (n *nodes) prefer(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rest := slices.DeleteFunc(n.urls, func(u string) bool { return u == url })
	n.urls = append([]string{url}, rest...)
}

// add puts URLs not known yet behind the others.
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
