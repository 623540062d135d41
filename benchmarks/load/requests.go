package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// result is what a run prints. A run with errors is no measurement: Rate then says nothing.
type result struct {
	Workload    string  `json:"workload"`
	Protocol    string  `json:"protocol"`
	Clients     int     `json:"clients"`
	Connections int     `json:"connections"`
	Watchers    int     `json:"watchers,omitempty"`
	Seconds     float64 `json:"seconds"`
	Operations  int     `json:"operations"`
	Warmup      int     `json:"warmup_operations"`
	Rate        float64 `json:"rate_per_second"`
	Bytes       int64   `json:"bytes"`
	Megabytes   float64 `json:"megabytes_per_second"`
	P50         float64 `json:"p50_ms"`
	P90         float64 `json:"p90_ms"`
	P99         float64 `json:"p99_ms"`
	Max         float64 `json:"max_ms"`
	ClientCPU   float64 `json:"client_cpu_seconds"`
	Resumed     int     `json:"resumed_watches"`
	Errors      int     `json:"errors"`
	FirstError  string  `json:"first_error,omitempty"`
	FirstStatus int     `json:"first_error_status,omitempty"`

	Probes   int     `json:"probes,omitempty"`
	ProbeP50 float64 `json:"probe_p50_ms,omitempty"`
	ProbeP99 float64 `json:"probe_p99_ms,omitempty"`
	ProbeMax float64 `json:"probe_max_ms,omitempty"`

	Failed int64 `json:"failed,omitempty"`

	FloodConnections int64   `json:"flood_connections,omitempty"`
	FloodMegabytes   float64 `json:"flood_megabytes,omitempty"`
}

// worker is one client: it has one request in flight at a time.
type worker struct {
	id, turn  int
	client    *client
	random    *rand.Rand
	buffer    []byte // answers are read through it
	body      []byte // requests are written into it
	edges     edges
	token     string
	latencies []time.Duration
	bytes     int64
}

func newWorker(c *client, id int, seed uint64) *worker {
	return &worker{id: id, client: c, random: rand.New(rand.NewPCG(seed, uint64(id))), buffer: make([]byte, 256<<10)}
}

// operation does one unit of a workload; index counts them over all workers.
type operation func(w *worker, index int) (int64, error)

var operations = map[string]func(*settings) operation{
	"create":      create,
	"get":         get,
	"merge-patch": mergePatch,
	"apply":       apply,
	"list-all":    func(s *settings) operation { return list("0", s.selector, "") },
	"list-500":    func(s *settings) operation { return list("500", s.selector, "") },
	"table-500":   func(s *settings) operation { return list("500", s.selector, tableAccept) },
	"health":      func(*settings) operation { return health },
	"watch-from":  func(s *settings) operation { return watchUntil("resourceVersion="+s.revision, s.events) },
	"watch-list":  func(s *settings) operation { return watchUntil(initialEvents+selecting(s.selector), s.events) },
}

func create(s *settings) operation {
	t := newTemplate(s.size)
	t.inGroup = s.inGroup
	paths := []string{collection(s.namespace, version)}
	if s.namespaces > 0 {
		paths = paths[:0]
		for i := range s.namespaces {
			paths = append(paths, collection(fmt.Sprintf("%s-%02d", s.namespace, i), version))
		}
	}
	return func(w *worker, index int) (int64, error) {
		w.body = t.inItsGroup(w.body[:0], s.name(index), index)
		return w.do(request{method: http.MethodPost, path: paths[index%len(paths)], contentType: "application/json", body: w.body})
	}
}

func get(s *settings) operation {
	return func(w *worker, _ int) (int64, error) {
		return w.do(request{method: http.MethodGet, path: w.client.collection + "/" + s.name(w.random.IntN(s.objects))})
	}
}

func mergePatch(s *settings) operation {
	return func(w *worker, _ int) (int64, error) {
		w.body = append(append(w.body[:0], `{"spec":{"replicas":`...), w.replicas()...)
		w.body = append(w.body, `}}`...)
		return w.do(request{
			method: http.MethodPatch, path: w.client.collection + "/" + w.own(s), contentType: "application/merge-patch+json", body: w.body,
		})
	}
}

func apply(s *settings) operation {
	t := newTemplate(s.size)
	return func(w *worker, _ int) (int64, error) {
		name := w.own(s)
		w.body = t.object(w.body[:0], name, w.random.IntN(1_000_000)+1)
		return w.do(request{
			method: http.MethodPatch, path: w.client.collection + "/" + name + "?fieldManager=load&force=true",
			contentType: "application/apply-patch+yaml", body: w.body,
		})
	}
}

func health(w *worker, _ int) (int64, error) {
	return w.do(request{method: http.MethodGet, path: "/healthz"})
}

// list reads the collection in pages of limit, following continue tokens and beginning anew after the last; with limit 0 all at once.
func list(limit, selector, accept string) operation {
	query := "limit=" + limit + selecting(selector)
	return func(w *worker, _ int) (int64, error) {
		path := w.client.collection + "?" + query
		if w.token != "" {
			path += "&continue=" + url.QueryEscape(w.token)
		}
		n, err := w.client.do(w.id, request{method: http.MethodGet, path: path, accept: accept}, w.buffer, &w.edges)
		w.token = w.edges.continueToken()
		return n, err
	}
}

// selecting is the end of a query.
func selecting(selector string) string {
	if selector == "" {
		return ""
	}
	return "&labelSelector=" + url.QueryEscape(selector)
}

func (w *worker) do(r request) (int64, error) { return w.client.do(w.id, r, w.buffer, nil) }

// own names the next of the objects that only this worker writes to, so that writes don't conflict.
func (w *worker) own(s *settings) string {
	w.turn++
	return s.name(w.id + s.clients*(w.turn%max(1, s.objects/s.clients)))
}

// replicas is a value the object does not have yet, but for one chance in a million: a patch that changes nothing is not written.
func (w *worker) replicas() []byte {
	var digits [6]byte
	for i := range digits {
		digits[i] = byte('1' + w.random.IntN(9))
	}
	return digits[:]
}

// runRequests keeps s.clients requests in flight until the count or the time is reached; the first error ends it.
func runRequests(c *client, s *settings, do operation) *result {
	seed := uint64(time.Now().UnixNano())
	workers := make([]*worker, s.clients)
	for i := range workers {
		workers[i] = newWorker(c, i, seed)
	}
	warmup := 0
	if s.count == 0 {
		// The warm-up ends when its last request does: a list of many megabytes then lies wholly inside or outside of what is measured.
		if _, failure := phase(workers, limit{until: time.Now().Add(s.warmup)}, do); failure != nil {
			return summarise(s, workers, s.warmup, failure)
		}
		for _, w := range workers {
			warmup += len(w.latencies)
			w.latencies, w.bytes = w.latencies[:0], 0
		}
	}
	elapsed, failure := phase(workers, limit{count: s.count, until: time.Now().Add(s.duration)}, do)
	r := summarise(s, workers, elapsed, failure)
	r.Warmup = warmup
	return r
}

// runProbed is runRequests with requests of /healthz beside it, which tell how long a client of little needs waits meanwhile.
func runProbed(c *client, s *settings, do operation) (*result, error) {
	apart := *s
	apart.connections, apart.clients = 1, 1
	prober, err := newClient(&apart)
	if err != nil {
		return nil, err
	}
	if err := prober.connect(); err != nil {
		return nil, err
	}
	w := newWorker(prober, 0, 0)
	var failure error
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for failure == nil {
			select {
			case <-over:
				return
			default:
			}
			start := time.Now()
			_, failure = health(w, 0)
			// A busy kube-apiserver may find its etcd unhealthy; what is measured is when it says so.
			if status := (*statusError)(nil); errors.As(failure, &status) {
				failure = nil
			}
			w.latencies = append(w.latencies, time.Since(start))
		}
	}()
	r := runRequests(c, s, do)
	close(over)
	<-done
	if failure != nil && r.Errors == 0 {
		r.fail(&failure)
	}
	slices.Sort(w.latencies)
	r.Probes = len(w.latencies)
	r.ProbeP50, r.ProbeP99, r.ProbeMax = quantile(w.latencies, 0.5), quantile(w.latencies, 0.99), quantile(w.latencies, 1)
	return r, nil
}

// With -persist requests that fail are counted in failed, and their worker goes on after a pause.
var (
	persist bool
	failed  atomic.Int64
)

const pause = 100 * time.Millisecond

// limit ends a phase after count operations or, where count is 0, at a time.
type limit struct {
	count int
	until time.Time
}

// phase runs all workers and returns the time until the last of them was done, requests in flight at the end included.
func phase(workers []*worker, end limit, do operation) (time.Duration, *error) {
	var next atomic.Int64
	var stop atomic.Bool
	var failure atomic.Pointer[error]
	var running sync.WaitGroup
	began := time.Now()
	for _, w := range workers {
		running.Go(func() {
			for !stop.Load() {
				index, start := int(next.Add(1))-1, time.Now()
				if end.count > 0 && index >= end.count || end.count == 0 && start.After(end.until) {
					return
				}
				n, err := do(w, index)
				if err != nil && persist {
					failed.Add(1)
					time.Sleep(pause)
					continue
				}
				if err != nil {
					failure.CompareAndSwap(nil, &err)
					stop.Store(true)
					return
				}
				w.latencies = append(w.latencies, time.Since(start))
				w.bytes += n
			}
		})
	}
	running.Wait()
	return time.Since(began), failure.Load()
}

func summarise(s *settings, workers []*worker, elapsed time.Duration, failure *error) *result {
	r := &result{Workload: s.workload, Protocol: "HTTP/2", Clients: s.clients, Connections: s.connections, Seconds: elapsed.Seconds()}
	if s.http1 {
		r.Protocol, r.Connections = "HTTP/1.1", s.clients
	}
	var all []time.Duration
	for _, w := range workers {
		all = append(all, w.latencies...)
		r.Bytes += w.bytes
	}
	slices.Sort(all)
	r.Operations = len(all)
	r.Rate = float64(len(all)) / r.Seconds
	r.Megabytes = float64(r.Bytes) / 1e6 / r.Seconds
	r.P50, r.P90, r.P99 = quantile(all, 0.5), quantile(all, 0.9), quantile(all, 0.99)
	r.Max = quantile(all, 1)
	r.ClientCPU = cpuSeconds()
	r.Failed = failed.Load()
	r.fail(failure)
	return r
}

func (r *result) fail(failure *error) {
	if failure == nil {
		return
	}
	r.Errors++
	r.FirstError = (*failure).Error()
	var status *statusError
	if errors.As(*failure, &status) {
		r.FirstStatus = status.status
	}
}

// quantile of sorted durations, in milliseconds; the nearest rank.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds() * 1e3
}

// cpuSeconds is what this process has used: it runs on the server's cores.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
