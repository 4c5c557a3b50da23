package offlinetest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// startPolicies has NetworkPolicies hold, which is no work of Kubernetes' own servers: a network is to do it. The
// node's packet filter is given new rules whenever a pod, a namespace or a policy changes.
func (c *Cluster) startPolicies(context.Context) error {
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	changed := make(chan struct{}, 1)
	signal := func(any) {
		select {
		case changed <- struct{}{}:
		default: // there is one waiting already
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: signal, UpdateFunc: func(_, now any) { signal(now) },
		DeleteFunc: signal}
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("offline: %w", err)
		}
		synced = append(synced, informer.HasSynced)
	}
	c.stopped = make(chan struct{})
	factory.Start(c.stopped)
	cache.WaitForCacheSync(c.stopped, synced...)

	apply := func() error {
		var state network
		var err error
		if state.pods, err = pods.Lister().List(labels.Everything()); err != nil {
			return err
		}
		if state.namespaces, err = namespaces.Lister().List(labels.Everything()); err != nil {
			return err
		}
		if state.policies, err = policies.Lister().List(labels.Everything()); err != nil {
			return err
		}
		rules, err := state.rules()
		if err != nil {
			return err
		}
		command := exec.Command("nft", "--file", "-")
		command.Stdin = strings.NewReader(rules)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("offline: nft: %w\n%s\n%s", err, output, rules)
		}
		return nil
	}
	if err := apply(); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-c.stopped:
				return
			case <-changed:
			}
			if err := apply(); err != nil {
				panic(err) // a cluster without policies would let tests pass that should not
			}
			time.Sleep(50 * time.Millisecond) // what changes together is applied together
		}
	}()
	return nil
}
