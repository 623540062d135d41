// Starts an envtest.Environment, as the tests of operators do, and stops it when standard input ends. It prints the seconds that each
// took. KUBEBUILDER_ASSETS says which programs it starts. Called by benchmarks/operators.py, which compiles it in the module of
// controller-runtime.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func main() {
	environment := &envtest.Environment{}
	began := time.Now()
	if _, err := environment.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(time.Since(began).Seconds())
	_, _ = io.Copy(io.Discard, os.Stdin)
	began = time.Now()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(time.Since(began).Seconds())
}
