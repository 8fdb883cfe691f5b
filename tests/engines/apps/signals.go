// Prints every signal it gets. With the word "polite" it leaves at SIGTERM, otherwise never.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	polite := len(os.Args) > 1 && os.Args[1] == "polite"
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM)
	fmt.Println("ready")
	for received := range signals {
		fmt.Println("got", received)
		if polite && received == syscall.SIGTERM {
			os.Exit(0)
		}
	}
}
