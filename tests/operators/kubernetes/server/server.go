// Package server runs the kube-apiserver of `aggserver envtest` for tests that would start one within their own process.
//
// INTEGRATION_KUBE_APISERVER is the program, INTEGRATION_SCRATCH a folder for data and logs.
package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startTime = 60 * time.Second
	stopTime  = 20 * time.Second
	interval  = 20 * time.Millisecond
)

var started atomic.Int32

// Start runs a server, and returns the configuration of its administrator and what stops it.
//
// prefix: of the keys in etcd, as the test has it. A server with the prefix of an earlier one finds its data.
func Start(prefix string, flags []string) (config *rest.Config, stop func(), err error) {
	scratch := os.Getenv("INTEGRATION_SCRATCH")
	data := filepath.Join(scratch, strings.ReplaceAll(strings.Trim(prefix, "/"), "/", "-"))
	etcd, err := answerAsEtcd(data)
	if err != nil {
		return nil, nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	log, err := os.Create(filepath.Join(scratch, fmt.Sprintf("server-%d.log", started.Add(1))))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	arguments := append([]string{
		"--etcd-servers=http://" + etcd.Addr().String(),
		fmt.Sprintf("--secure-port=%d", port),
		"--bind-address=127.0.0.1",
		"--service-cluster-ip-range=10.0.0.0/24",
	}, flags...)
	command := exec.Command(os.Getenv("INTEGRATION_KUBE_APISERVER"), arguments...)
	command.Stdout, command.Stderr = log, log
	fmt.Fprintf(log, "%q\n", arguments)
	if err := command.Start(); err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	stop = func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopTime):
			_ = command.Process.Kill()
			<-ended
		}
		_ = etcd.Close()
	}
	config, err = ready(filepath.Join(data, "kubeconfig"), port, ended)
	if err != nil {
		stop()
		said, _ := os.ReadFile(log.Name())
		return nil, nil, fmt.Errorf("the server did not start: %w\n%s", err, said)
	}
	return config, stop, nil
}

// answerAsEtcd says where the data folder is, as the etcd of `aggserver envtest` does.
func answerAsEtcd(data string) (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path == "/data-dir" {
				_, _ = w.Write([]byte(data))
			}
		}))
	}()
	return listener, nil
}

// freePort is one that was free just now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// ready waits for the kubeconfig of this start, an earlier one names another port, and until the server says that it is ready.
func ready(kubeconfig string, port int, ended chan error) (*rest.Config, error) {
	last := fmt.Errorf("no kubeconfig")
	for until := time.Now().Add(startTime); time.Now().Before(until); time.Sleep(interval) {
		select {
		case err := <-ended:
			ended <- err
			return nil, fmt.Errorf("it ended: %v", err)
		default:
		}
		content, err := os.ReadFile(kubeconfig)
		if err != nil || !bytes.Contains(content, fmt.Appendf(nil, ":%d\n", port)) {
			continue
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(content)
		if err != nil {
			return nil, err
		}
		config.QPS, config.Burst = 1000, 10000
		if last = isReady(config); last == nil {
			return config, nil
		}
	}
	return nil, last
}

func isReady(config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error()
}
