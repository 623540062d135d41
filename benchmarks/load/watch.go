package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Events are counted by their newlines: both servers write one compact JSON document to a line.
var newline = []byte{'\n'}

// What informers of client-go ask for: the objects of now as events, then a bookmark.
const initialEvents = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"

// watchUntil opens a watch, reads until so many events have come and ends it: the time is that of an informer's start.
func watchUntil(query string, events int) operation {
	return func(w *worker, _ int) (int64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		path := w.client.collection + "?watch=true&timeoutSeconds=600&" + query
		response, err := w.client.open(ctx, w.id, request{method: http.MethodGet, path: path})
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		var total int64
		for seen := 0; seen < events; {
			n, err := response.Body.Read(w.buffer)
			total += int64(n)
			seen += bytes.Count(w.buffer[:n], newline)
			if err != nil && seen < events {
				return total, fmt.Errorf("a watch ended after %d of %d events: %w", seen, events, err)
			}
		}
		return total, nil
	}
}

// runWatch opens s.watchers watches, creates s.count objects and measures from the first create until every watch has all of them.
func runWatch(c *client, s *settings) (*result, error) {
	revision, err := c.revision()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	watchers, err := openWatchers(ctx, c, s, revision)
	if err != nil {
		return nil, err
	}
	var failure atomic.Pointer[error]
	var running sync.WaitGroup
	began := time.Now()
	for _, w := range watchers {
		running.Go(func() {
			if err := w.follow(ctx, s.count); err != nil {
				failure.CompareAndSwap(nil, &err)
				cancel()
			}
		})
	}
	r := runRequests(c, s, create(s))
	if r.Errors > 0 {
		cancel()
	}
	running.Wait()

	r.Seconds, r.Bytes = time.Since(began).Seconds(), 0
	for _, w := range watchers {
		r.Bytes += w.bytes
		r.Resumed += w.resumed
	}
	r.Watchers, r.Operations = s.watchers, s.watchers*s.count
	r.Rate = float64(r.Operations) / r.Seconds
	r.Megabytes = float64(r.Bytes) / 1e6 / r.Seconds
	r.ClientCPU = cpuSeconds()
	if r.Errors == 0 { // otherwise the watches only ended because the creates did
		r.fail(failure.Load())
	}
	return r, nil
}

// revision is where the watches begin: without it each would be sent all objects first.
func (c *client) revision() (string, error) {
	response, err := c.open(context.Background(), 0, request{method: http.MethodGet, path: c.collection + "?limit=1"})
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return "", err
	}
	return list.Metadata.ResourceVersion, nil
}

// watcher is one informer: it holds a watch and, when the server ends it, begins another where that one stopped. Servers end watches
// that can't keep up, on a busy machine also kube-apiserver; what that costs belongs to the figure.
type watcher struct {
	id       int
	client   *client
	revision string // where the watch begins
	stream   io.ReadCloser
	last     tail // holds the last whole event
	keep     int  // bytes that surely hold it: two events, one of them cut
	bytes    int64
	resumed  int
}

// openWatchers returns when all watches have answered with their headers; a few are opened at a time, as a crowd of informers would.
func openWatchers(ctx context.Context, c *client, s *settings, revision string) ([]*watcher, error) {
	const atOnce = 16
	watchers := make([]*watcher, s.watchers)
	failures := make([]error, atOnce)
	var running sync.WaitGroup
	for lane := range atOnce {
		running.Go(func() {
			for i := lane; i < s.watchers && failures[lane] == nil; i += atOnce {
				watchers[i] = &watcher{id: i, client: c, revision: revision, keep: 2 * (s.size + 4096)}
				failures[lane] = watchers[i].open(ctx)
			}
		})
	}
	running.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, fmt.Errorf("opening a watch: %w", err)
	}
	return watchers, nil
}

func (w *watcher) open(ctx context.Context) error {
	path := fmt.Sprintf("%s?watch=true&timeoutSeconds=600&resourceVersion=%s", w.client.collection, w.revision)
	response, err := w.client.open(ctx, w.id, request{method: http.MethodGet, path: path})
	if err == nil {
		w.stream = response.Body
	}
	return err
}

// patience is how often in a row a watch may end without having brought an event.
const patience = 10

// follow reads until want events have come.
func (w *watcher) follow(ctx context.Context, want int) error {
	defer func() { w.stream.Close() }()
	buffer := make([]byte, 32<<10)
	seen, seenAtResume, vain := 0, 0, 0
	for {
		n, err := w.stream.Read(buffer)
		w.bytes += int64(n)
		seen += bytes.Count(buffer[:n], newline)
		w.last.add(buffer[:n], w.keep)
		if seen >= want {
			return nil
		}
		if err == nil {
			continue
		}
		if seen > seenAtResume {
			vain = 0
		}
		if vain++; ctx.Err() != nil || vain > patience {
			return fmt.Errorf("a watch ended after %d of %d events: %w", seen, want, err)
		}
		seenAtResume = seen
		if err := w.resume(ctx); err != nil {
			return fmt.Errorf("a watch ended after %d of %d events and could not be resumed: %w", seen, want, err)
		}
	}
}

// resume begins anew after the last whole event; without one since the last beginning, where that was.
func (w *watcher) resume(ctx context.Context) error {
	if end := bytes.LastIndexByte(w.last, '\n'); end >= 0 {
		event := w.last[bytes.LastIndexByte(w.last[:end], '\n')+1 : end]
		w.revision = stringField(event, "resourceVersion")
		if w.revision == "" || stringField(event, "type") == "ERROR" {
			return fmt.Errorf("the last event was %.300q", event)
		}
	}
	w.stream.Close()
	w.last = w.last[:0]
	w.resumed++
	return w.open(ctx)
}
