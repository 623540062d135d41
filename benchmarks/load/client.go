package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// The API of the objects: of the benchmark's CronTabs, or with -flunders of sample-apiserver.
var (
	group   = "bench.aggserver.dev"
	version = "v1"
	plural  = "crontabs"
)

const (
	// What kubectl get sends.
	tableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

	// No request of the workloads takes this long on a server that is alive.
	requestTimeout = 2 * time.Minute
)

// client holds one transport for each connection: Go's transport shares one HTTP/2 connection for each host until its streams run out.
// bases are the servers: the connections take turns at them, as a Service does.
type client struct {
	bases      []string
	collection string
	gzip       bool
	transports []*http.Transport
}

func newClient(s *settings) (*client, error) {
	config, err := tlsConfig(s)
	if err != nil {
		return nil, err
	}
	c := &client{
		bases:      strings.Split(s.server, ","),
		collection: collection(s.namespace, s.version),
		gzip:       s.gzip,
	}
	count := s.connections
	if s.http1 {
		count = 1
	}
	for range count {
		t := &http.Transport{
			TLSClientConfig:     config.Clone(),
			DisableCompression:  true, // on loopback it would measure two gzip libraries; -gzip asks for it, and reads what comes
			MaxIdleConnsPerHost: s.clients + s.watchers,
			ForceAttemptHTTP2:   !s.http1,
			ReadBufferSize:      64 << 10,
		}
		if s.http1 {
			t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		c.transports = append(c.transports, t)
	}
	return c, nil
}

// collection is the path of the objects of a namespace, without one of all.
func collection(namespace, version string) string {
	if namespace == "" {
		return fmt.Sprintf("/apis/%s/%s/%s", group, version, plural)
	}
	return fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", group, version, namespace, plural)
}

func tlsConfig(s *settings) (*tls.Config, error) {
	authority, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", s.ca)
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// connect opens every connection before anything is measured.
func (c *client) connect() error {
	for i := range c.transports {
		if _, err := c.do(i, request{method: http.MethodGet, path: c.collection + "?limit=1"}, make([]byte, 64<<10), nil); err != nil {
			return err
		}
	}
	return nil
}

type request struct {
	method, path, contentType, accept string
	body                              []byte
}

// statusError is an answer other than 2xx.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// do sends a request on the connection of a worker, reads the answer through buffer and returns the bytes of its body.
func (c *client) do(worker int, r request, buffer []byte, keep *edges) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	response, err := c.open(ctx, worker, r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if keep != nil {
		keep.reset()
	}
	var total int64
	for {
		n, err := response.Body.Read(buffer)
		total += int64(n)
		if keep != nil {
			keep.add(buffer[:n])
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// open sends a request and returns the answer as soon as its headers are here.
func (c *client) open(ctx context.Context, worker int, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	connection := worker % len(c.transports)
	q, err := http.NewRequestWithContext(ctx, r.method, c.bases[connection%len(c.bases)]+r.path, body)
	if err != nil {
		return nil, err
	}
	q.Header["User-Agent"] = []string{"aggserver-load"}
	if r.accept == "" {
		r.accept = "application/json"
	}
	q.Header["Accept"] = []string{r.accept}
	if c.gzip {
		q.Header["Accept-Encoding"] = []string{"gzip"}
	}
	if r.contentType != "" {
		q.Header["Content-Type"] = []string{r.contentType}
	}
	// The transport itself rather than http.Client: there are no redirects or cookies to look after.
	response, err := c.transports[connection].RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 400))
		return nil, &statusError{response.StatusCode, strings.TrimSpace(string(text))}
	}
	return response, nil
}

const edge = 2048

// edges keeps the first and last bytes of a body. List metadata stands at one of them: kube-apiserver writes the fields of custom
// resource lists in alphabetical order and those of a Table with metadata first.
type edges struct {
	head []byte
	tail tail
}

func (e *edges) reset() { e.head, e.tail = e.head[:0], e.tail[:0] }

func (e *edges) add(chunk []byte) {
	if room := edge - len(e.head); room > 0 {
		e.head = append(e.head, chunk[:min(room, len(chunk))]...)
	}
	e.tail.add(chunk, edge)
}

// continueToken is the list's continue token, or empty on the last page.
func (e *edges) continueToken() string {
	for _, part := range [][]byte{e.head, e.tail} {
		if token := stringField(part, "continue"); token != "" {
			return token
		}
	}
	return ""
}

// tail is the end of a stream of bytes.
type tail []byte

// add takes note of the next bytes; of all before them at least the last limit bytes are kept, at most twice as many, so that a stream
// of small chunks is not moved about at each.
func (t *tail) add(chunk []byte, limit int) {
	if len(chunk) > limit {
		*t = append((*t)[:0], chunk[len(chunk)-limit:]...)
		return
	}
	*t = append(*t, chunk...)
	if len(*t) > 2*limit {
		*t = append((*t)[:0], (*t)[len(*t)-limit:]...)
	}
}

// stringField is the value of the first field with this name in compact JSON, empty if there is none. For values without escapes.
func stringField(text []byte, name string) string {
	_, rest, _ := bytes.Cut(text, []byte(`"`+name+`":"`))
	value, _, found := bytes.Cut(rest, []byte(`"`))
	if !found {
		return ""
	}
	return string(value)
}
