package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dbqpg/dbqpg/internal/sameorigin"
)

// Bounds on clients' requests.
const (
	maxConnections = 64
	maxScrapes     = 4
	maxHeader      = 16 << 10
	readTimeout    = 5 * time.Second
	scrapeTimeout  = 10 * time.Second
	writeTimeout   = 15 * time.Second
	profileTimeout = 2 * time.Minute // a profile takes half a minute by default
	idleTimeout    = 2 * time.Minute
	closeTimeout   = 2 * time.Second
)

// AutoListen stands for autoAddress, or a free port if that one is in use.
const (
	AutoListen  = "auto"
	autoAddress = "127.0.0.1:8080"
)

// CheckListen validates a Config's Listen, which a flag gave, and its Pprof.
func CheckListen(flag, listen string, withPprof bool) error {
	if listen == "" {
		if withPprof {
			return errors.New("--pprof: the profiles need an address: add " + flag + " 127.0.0.1:0")
		}
		return nil
	}
	if listen == AutoListen {
		return nil
	}
	host, err := listenHost(listen)
	if err != nil {
		return fmt.Errorf("%s %q: %w", flag, listen, err)
	}
	if ip := net.ParseIP(host); withPprof && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--pprof with %s %s: profiles are for this machine only; listen on 127.0.0.1", flag, listen)
	}
	return nil
}

// listenHost returns the host of host:port, or 127.0.0.1 if that is empty.
func listenHost(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", errors.New("must be host:port, such as 127.0.0.1:9464; port 0 picks a free one")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, nil
}

// serve runs the HTTP server until stop is called.
func (p *Process) serve(c Config) (stop func(), err error) {
	if err := CheckListen("--metrics-listen", c.Listen, c.Pprof); err != nil || c.Listen == "" {
		return func() {}, err
	}
	if err := p.registerRuntime(); err != nil {
		return nil, err
	}
	listener, err := listen(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve HTTP (--http or --metrics-listen; port 0 picks a free one): %w", err)
	}
	if c.Pages != nil { // browsers open them: refuse other sites, and names that may have been pointed here
		host, _, _ := net.SplitHostPort(c.Listen) // "" for AutoListen
		c.Pages = sameorigin.Handler(c.Pages, host)
	}
	handler := p.handler(c)
	if listener.Addr().(*net.TCPAddr).IP.IsLoopback() { // elsewhere Prometheus uses a name
		handler = sameorigin.Handler(handler)
	}
	server := newServer(handler, c)
	ctx, end := context.WithCancel(context.Background())
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("the metrics server has failed", "error", err)
		}
	}()
	url := "http://" + listener.Addr().String()
	if at := listener.Addr().(*net.TCPAddr); at.IP.IsUnspecified() { // browsers cannot open 0.0.0.0
		url = "http://localhost:" + strconv.Itoa(at.Port)
	}
	if c.Pages != nil {
		p.tell(func() { c.Log.Info("open this address in a browser", "url", url+"/"+c.Page) })
	}
	if c.Listen != AutoListen {
		c.Log.Info("serving metrics", "url", url+"/metrics")
	}
	return func() {
		end() // ends the pages' streams
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close() // remaining readers have had enough time
		}
		<-served
	}, nil
}

// tell calls announce once the process works, so that a process that fails to start announces no address.
func (p *Process) tell(announce func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.works {
		announce()
		return
	}
	p.announce = announce
}

func listen(address string) (net.Listener, error) {
	if address == AutoListen {
		if listener, err := net.Listen("tcp", autoAddress); err == nil {
			return listener, nil
		}
		address = "127.0.0.1:0"
	}
	host, err := listenHost(address)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address) // listenHost has checked it
	return net.Listen("tcp", net.JoinHostPort(host, port))
}

func newServer(handler http.Handler, c Config) *http.Server {
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	LimitConnections(server, maxConnections)
	if c.Pprof {
		server.WriteTimeout = profileTimeout
	}
	return server
}

// LimitConnections bounds the connections of a server. A new one takes the place of the one that has waited longest for a
// request.
func LimitConnections(server *http.Server, most int) {
	var mu sync.Mutex
	var waiting []net.Conn // the longest first
	open := 0
	server.ConnState = func(connection net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		waiting = slices.DeleteFunc(waiting, func(c net.Conn) bool { return c == connection })
		switch state {
		case http.StateNew, http.StateIdle:
			waiting = append(waiting, connection)
		case http.StateClosed, http.StateHijacked:
			open--
		}
		if state != http.StateNew {
			return
		}
		if open++; open > most {
			go waiting[0].Close() // TLS says goodbye
			waiting = waiting[1:]
		}
	}
}

// Metrics returns a handler of the metrics, for a program with a server of its own.
func (p *Process) Metrics(log *slog.Logger) (http.Handler, error) {
	return p.handler(Config{Log: log}), p.registerRuntime()
}

// handler serves the metrics, health and readiness.
func (p *Process) handler(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	if c.Pages != nil {
		mux.Handle("/", c.Pages)
	}
	if c.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // the client may be gone
}
