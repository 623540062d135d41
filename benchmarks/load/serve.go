package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// canned answers every workload with prepared bytes: what is left is the cost of the client, TLS and Go's HTTP server.
type canned struct {
	one, all, page []byte
	mutex          sync.Mutex
	watchers       map[chan []byte]struct{}
}

// serveCanned writes ca.crt, tls.crt and tls.key into dir, prints the address and serves until it is ended.
func serveCanned(dir string, size, objects int) error {
	pair, err := writeKeys(dir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	one := newTemplate(size+670).object(nil, "obj-000000", 1)
	s := &canned{one: one, all: listOf(one, objects), page: listOf(one, 500), watchers: map[chan []byte]struct{}{}}
	fmt.Printf("https://%s\n", listener.Addr())
	server := &http.Server{
		Handler:           s,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ReadHeaderTimeout: time.Minute,
	}
	return server.ServeTLS(listener, "", "")
}

func listOf(one []byte, count int) []byte {
	items := bytes.Repeat(append(one, ','), count)
	list := append([]byte(`{"apiVersion":"`+group+`/`+version+`","items":[`), items[:len(items)-1]...)
	return append(list, `],"kind":"CronTabList","metadata":{"resourceVersion":"1"}}`...)
}

func (s *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case query.Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodPost:
		s.publish()
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(s.one)
	case !strings.HasSuffix(r.URL.Path, "/"+plural):
		_, _ = w.Write(s.one)
	case query.Get("limit") == "500":
		_, _ = w.Write(s.page)
	case query.Get("limit") == "1":
		_, _ = w.Write([]byte(`{"items":[],"metadata":{"resourceVersion":"1"}}`))
	default:
		_, _ = w.Write(s.all)
	}
}

func (s *canned) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan []byte, 10000)
	s.mutex.Lock()
	s.watchers[events] = struct{}{}
	s.mutex.Unlock()
	defer func() {
		s.mutex.Lock()
		delete(s.watchers, events)
		s.mutex.Unlock()
	}()
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	for {
		select {
		case event := <-events:
			if _, err := w.Write(event); err != nil || flusher.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (s *canned) publish() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.watchers) == 0 {
		return
	}
	event := append(append([]byte(`{"type":"ADDED","object":`), s.one...), "}\n"...)
	for watcher := range s.watchers {
		watcher <- event
	}
}

// writeKeys makes one self-signed certificate, which is authority, server and client in one.
func writeKeys(dir string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "load"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	for name, content := range map[string][]byte{"ca.crt": certificate, "tls.crt": certificate, "tls.key": private} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return tls.Certificate{}, err
		}
	}
	return tls.X509KeyPair(certificate, private)
}
