// Command load puts one workload on an API server that serves the benchmark's CronTabs and prints one line of JSON.
//
// It is compiled, parses no bodies and spreads its streams over several connections, because it shares the machine with the server it
// measures: what it costs is taken from the server. `-serve` starts a trivial server instead, against which the same workloads tell
// the client's own ceiling; `-webhook` starts an admission webhook that allows everything, `-convert` one that converts the CronTabs to
// another version.
//
// Called by benchmarks/client.py; every flag has the meaning of the field of the same name there.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

type settings struct {
	server, ca, cert, key string
	workload, namespace   string
	clients, connections  int
	count, objects        int
	watchers, size        int
	namespaces, events    int
	duration, warmup      time.Duration
	http1, gzip           bool
	prefix, revision      string
	version               string
	flood                 string
	floods                int
	selector              string
	inGroup               int
	probe                 bool
}

func main() {
	var s settings
	webhook := flag.String("webhook", "", "write keys to this folder, serve an admission webhook on loopback and print the address")
	serve := flag.String("serve", "", "write keys to this folder, serve canned answers on loopback and print the address")
	convert := flag.String("convert", "", "write keys to this folder, serve a conversion webhook on loopback and print the address")
	flag.StringVar(&s.server, "server", "", "https://host:port; several of them, comma-separated, share the connections")
	flag.StringVar(&s.ca, "ca", "", "PEM file of the authority the server is verified by")
	flag.StringVar(&s.cert, "cert", "", "PEM file of the client's certificate")
	flag.StringVar(&s.key, "key", "", "PEM file of the client's key")
	flag.StringVar(&s.workload, "workload", "", "create, get, merge-patch, apply, list-all, list-500, table-500, health, watch, watch-from or watch-list")
	flag.StringVar(&s.namespace, "namespace", "bench", "namespace of the objects; empty: all, for lists and watches")
	flag.StringVar(&s.version, "version", version, "API version in which objects are read, patched and watched")
	flag.IntVar(&s.namespaces, "namespaces", 0, "create spreads over so many namespaces, <namespace>-00 and so on; 0: the one")
	flag.StringVar(&s.prefix, "prefix", "obj", "objects are named <prefix>-<six digits>")
	flag.IntVar(&s.clients, "clients", 32, "requests in flight; for watch: creates in flight")
	// client-go keeps one connection for each server and process. The workloads stand for several processes; one connection would also
	// measure how well one socket can be read rather than the server.
	flag.IntVar(&s.connections, "connections", 4, "HTTP/2 connections that share the clients (with -http1 each client has its own)")
	flag.IntVar(&s.count, "count", 0, "operations in all; 0: as many as fit into -duration")
	flag.IntVar(&s.objects, "objects", 10000, "objects that exist already, for get, merge-patch and apply")
	flag.IntVar(&s.watchers, "watchers", 100, "watches held open by the workload watch")
	flag.StringVar(&s.revision, "revision", "", "where each watch of watch-from begins")
	flag.IntVar(&s.events, "events", 1, "events that end each watch of watch-from and watch-list, bookmarks included")
	flag.IntVar(&s.size, "size", 3030, "bytes of an object as sent; the server adds about 670")
	flag.DurationVar(&s.duration, "duration", 5*time.Second, "length of a run that has no -count")
	flag.DurationVar(&s.warmup, "warmup", 500*time.Millisecond, "unmeasured start of a run that has no -count")
	flag.BoolVar(&s.http1, "http1", false, "speak HTTP/1.1")
	flag.BoolVar(&s.gzip, "gzip", false, "ask for compressed bodies, as client-go does, and count their bytes as they come")
	flag.StringVar(&s.flood, "flood", "", "settings or ping: hostile clients send these frames without end meanwhile")
	flag.IntVar(&s.floods, "floods", 8, "connections of hostile clients, which have no certificate")
	flag.StringVar(&s.selector, "selector", "", "label selector of list-all, list-500, table-500 and watch-list")
	flag.IntVar(&s.inGroup, "in-group", 0, "create gives so many objects in turn a label group of their own, group-000000 and so on; 0: no such label")
	flag.BoolVar(&s.probe, "probe", false, "request /healthz meanwhile, one request after the other on a connection of its own")
	flag.BoolVar(&persist, "persist", false, "count requests that fail and go on, instead of ending the run")
	flunders := flag.Bool("flunders", false, "objects are the Flunders of sample-apiserver, in v1alpha1")
	flag.Parse()

	if *flunders {
		group, plural, version, s.version = "wardle.example.com", "flunders", "v1alpha1", "v1alpha1"
	}
	if *webhook != "" {
		fail(serveWebhook(*webhook, allow))
		return
	}
	if *serve != "" {
		fail(serveCanned(*serve, s.size, s.objects))
		return
	}
	if *convert != "" {
		fail(serveWebhook(*convert, convertAll))
		return
	}
	result, err := run(&s)
	fail(err)
	fail(json.NewEncoder(os.Stdout).Encode(result))
	if result.Errors > 0 {
		os.Exit(1)
	}
}

func run(s *settings) (*result, error) {
	c, err := newClient(s)
	if err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if s.workload == "watch" {
		return runWatch(c, s)
	}
	prepare, known := operations[s.workload]
	if !known {
		return nil, fmt.Errorf("unknown workload %q", s.workload)
	}
	if s.flood == "" {
		if s.probe {
			return runProbed(c, s, prepare(s))
		}
		return runRequests(c, s, prepare(s)), nil
	}
	hostile, err := startFlood(s)
	if err != nil {
		return nil, err
	}
	r := runRequests(c, s, prepare(s))
	r.FloodConnections, r.FloodMegabytes = hostile.stop()
	return r, nil
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	}
}
