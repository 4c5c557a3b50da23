package client

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/mod/semver"
)

// ReleaseHeader is the header with the release that a node is of, such as v0.2.0, in all its answers. Other builds do without it.
const ReleaseHeader = "Dbqpg-Release"

// Earlier returns those of the coordinator's nodes that are of an earlier release, each as its URL and its release. A node
// that does not answer, or says nothing of a release, is not among them.
func (c *Client) Earlier(ctx context.Context, release string) ([]string, error) {
	if _, err := c.Nodes(ctx); err != nil { // whose answer has the URLs
		return nil, err
	}
	urls := c.nodes.all()
	slices.Sort(urls)
	earlier := make([]string, len(urls))
	var asking sync.WaitGroup
	for i, url := range urls {
		asking.Go(func() {
			if is := c.release(ctx, url); is != "" && semver.Compare(is, release) < 0 {
				earlier[i] = url + " (" + is + ")"
			}
		})
	}
	asking.Wait()
	return slices.DeleteFunc(earlier, func(s string) bool { return s == "" }), nil
}

// release returns the release that a node is of, "" if it does not say.
func (c *Client) release(ctx context.Context, url string) string {
	ctx, cancel := context.WithTimeout(ctx, firstAttempt)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return ""
	}
	response, err := c.http.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	if release := response.Header.Get(ReleaseHeader); semver.IsValid(release) {
		return release
	}
	return ""
}
