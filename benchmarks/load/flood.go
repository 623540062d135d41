package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + emptySettings

// A GET without an end of its headers, and a piece that says no more.
const (
	openHead     = "\x00\x00\x03\x01\x01\x00\x00\x00\x01\x82\x87\x84"
	continuation = "\x00\x00\x00\x09\x00\x00\x00\x00\x01"
)

// The fields of a request that is as large as aggserver allows, 28 bytes each, of one byte on the wire.
const manyFields = 1900

const emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// floods are what a hostile client may send at no cost of its own: frames for ever, or until the connection is ended.
var floods = map[string]string{
	"settings":     emptySettings,
	"ping":         "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678",
	"headers":      largeRequests(),
	"continuation": openHead + strings.Repeat(continuation, 7000),
}

// largeRequests are requests of many small fields, on 33 streams: a read's worth.
func largeRequests() string {
	block := "\x82\x87\x84" + strings.Repeat("\x90", manyFields)
	var all strings.Builder
	for stream := 1; stream < 66; stream += 2 {
		all.Write([]byte{0, byte(len(block) >> 8), byte(len(block)), 1, 5, 0, 0, 0, byte(stream)})
		all.WriteString(block)
	}
	return all.String()
}

// flood is what hostile clients do beside a workload.
type flood struct {
	address       string
	config        *tls.Config
	chunk         []byte
	stopped       atomic.Bool
	opened, bytes atomic.Int64
	running       sync.WaitGroup
	mutex         sync.Mutex
	current       map[*tls.Conn]bool
}

// startFlood opens s.floods connections without a certificate, which send s.flood as fast as they can and are opened anew when they end.
func startFlood(s *settings) (*flood, error) {
	frame, known := floods[s.flood]
	if !known {
		return nil, fmt.Errorf("unknown flood %q", s.flood)
	}
	server, err := url.Parse(s.server)
	if err != nil {
		return nil, err
	}
	config, err := tlsConfig(s)
	if err != nil {
		return nil, err
	}
	config.Certificates = nil
	config.NextProtos = []string{"h2"}
	f := &flood{address: server.Host, config: config, current: map[*tls.Conn]bool{}}
	for len(f.chunk) < 64<<10 {
		f.chunk = append(f.chunk, frame...)
	}
	for range s.floods {
		f.running.Go(func() {
			for !f.stopped.Load() {
				f.once()
			}
		})
	}
	return f, nil
}

// once floods one connection until it ends; answers are read, so that the server can't tell by them.
func (f *flood) once() {
	conn, err := tls.Dial("tcp", f.address, f.config)
	if err != nil {
		return
	}
	f.mutex.Lock()
	f.current[conn] = true
	f.mutex.Unlock()
	defer func() {
		conn.NetConn().Close()
		f.mutex.Lock()
		delete(f.current, conn)
		f.mutex.Unlock()
	}()
	f.opened.Add(1)
	go func() {
		io.Copy(io.Discard, conn)
		conn.NetConn().Close() // the server has ended it
	}()
	if _, err := io.WriteString(conn, preface); err != nil {
		return
	}
	for !f.stopped.Load() {
		n, err := conn.Write(f.chunk)
		f.bytes.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// stop ends all and returns how many connections they had and how many megabytes they sent.
func (f *flood) stop() (int64, float64) {
	f.stopped.Store(true)
	f.mutex.Lock()
	for conn := range f.current {
		conn.NetConn().Close()
	}
	f.mutex.Unlock()
	f.running.Wait()
	return f.opened.Load(), float64(f.bytes.Load()) / 1e6
}
