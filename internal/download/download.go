// Package download fetches files for builds. The caller verifies their hashes.
package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// ErrUnavailable means that a file could not be fetched, as without a network.
var ErrUnavailable = errors.New("the download failed")

// timeout is for one file.
const timeout = 10 * time.Minute

// Get returns the file at an address, of at most a number of bytes, and the address that it came from after redirects.
// Passwords in addresses are not in its errors.
func Get(ctx context.Context, address string, most int64) ([]byte, *url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", "text/html, */*;q=0.1") // some indexes offer JSON as well
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%w: %s answers %s", ErrUnavailable, request.URL.Redacted(), response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if int64(len(data)) > most {
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", request.URL.Redacted(), most)
	}
	return data, response.Request.URL, nil
}
