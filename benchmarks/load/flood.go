package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + emptySettings

const emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// floods are the frames that a hostile client may send for ever at no cost of its own.
var floods = map[string]string{
	"settings": emptySettings,
	"ping":     "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678",
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
