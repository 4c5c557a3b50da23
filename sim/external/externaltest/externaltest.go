// Package externaltest provides a program for tests of task files: it serves toys, well or badly.
package externaltest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/dbqpg/dbqpg/sim/external"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

// argument is the first one of a test's own binary that is to be the program.
const argument = "serve-toys"

// Main is to be called first in TestMain: it makes a process that was started by a [File]'s command the program.
func Main() {
	if len(os.Args) == 3 && os.Args[1] == argument {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Text returns a task file for toys, k to a process. What goes wrong says [serve]; "" is nothing.
func Text(wrong string, k int) string {
	return fmt.Sprintf("{name: Toys, observations: 3, actions: 2, low: [-1, -1], high: [0.5, .inf], steps: 50, "+
		"environments: %d, command: [%q, %s, %q]}",
		k, os.Args[0], argument, wrong)
}

// File is Text, parsed.
func File(wrong string, k int) *external.File {
	f, err := external.Parse([]byte(Text(wrong, k)))
	if err != nil {
		panic(err)
	}
	return f
}

// Toy is the environment as the program has it: a seed decides its episode. It is played without a process as well.
type Toy struct{ simtest.Toy }

// Reset draws a seed, as environments of task files do.
func (t *Toy) Reset(rng *rand.Rand, observation []float64) error {
	return t.start(rng.Uint32(), observation)
}

func (t *Toy) start(seed uint32, observation []float64) error {
	return t.Toy.Reset(rand.New(rand.NewPCG(uint64(seed), 0)), observation)
}

// Step clips the action to the file's bounds.
func (t *Toy) Step(action, observation []float64) (reward float64, terminated bool, err error) {
	clipped := []float64{min(max(action[0], -1), 0.5), max(action[1], -1)}
	return t.Toy.Step(clipped, observation)
}

// server is the program.
type server struct {
	wrong string
	toys  []*Toy
	steps []int
}

// serve answers on standard input and output. At the start, it may "exit", "sleep", "refuse", or have an "other
// version", "other dimensions" or "discrete" actions; at an episode's third step, it may "crash" (with "crash once PATH" only if there is
// no such file, which it then makes), "hang", "write PATH" its process ID there and hang alone, "chatter" on standard
// output, "close" it, "raise" an error, give a "nan", an "infinite reward", a "wrong shape", "too many" errors or a
// "truncated" episode.
func serve(wrong string) error {
	s := &server{wrong: wrong}
	in, out := bufio.NewReader(os.Stdin), os.Stdout
	for {
		var length [4]byte
		if _, err := io.ReadFull(in, length[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		message := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(in, message); err != nil {
			return err
		}
		var request []any
		if err := msgpack.Unmarshal(message, &request); err != nil {
			return err
		}
		answer, err := s.answer(request)
		if err != nil {
			answer = []any{"error", err.Error()}
		}
		if message, err = msgpack.Marshal(answer); err != nil {
			return err
		}
		binary.BigEndian.PutUint32(length[:], uint32(len(message)))
		if _, err := out.Write(append(length[:], message...)); err != nil {
			return err
		}
	}
}

func number(v any) int {
	var n int
	if _, err := fmt.Sscan(fmt.Sprint(v), &n); err != nil {
		panic(err)
	}
	return n
}

func floats(v ...float64) []byte {
	data, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return data
}

func (s *server) answer(request []any) ([]any, error) {
	switch request[0] {
	case "hello":
		return s.hello(number(request[2]))
	case "reset":
		i, observation := number(request[1]), make([]float64, 3)
		s.steps[i] = 0
		err := s.toys[i].start(uint32(number(request[2])), observation)
		return []any{"reset", floats(observation...)}, err
	}
	var observations, rewards, ends []byte
	errs := []string{}
	for row, index := range request[1].([]any) {
		i, action, observation := number(index), make([]float64, 2), make([]float64, 3)
		if _, err := binary.Decode(request[2].([]byte)[16*row:], binary.LittleEndian, action); err != nil {
			return nil, err
		}
		reward, terminated, err := s.toys[i].Toy.Step(action, observation)
		if err != nil {
			return nil, err
		}
		end := byte(0)
		if terminated {
			end = 1
		}
		if s.steps[i]++; s.steps[i] == 3 {
			if s.disturb(observation, &reward, &end) != nil {
				end, errs = 4, append(errs, "ValueError: the gripper is lost")
			}
		}
		observations, rewards = append(observations, floats(observation...)...), append(rewards, floats(reward)...)
		ends = append(ends, end)
	}
	switch s.wrong {
	case "wrong shape":
		observations = append(observations, observations[:8]...)
	case "too many":
		errs = append(errs, "one too many")
	}
	return []any{"step", observations, rewards, ends, errs}, nil
}

func (s *server) hello(k int) ([]any, error) {
	switch s.wrong {
	case "exit":
		return nil, exit("ModuleNotFoundError: no module named grippers")
	case "sleep":
		hang()
	case "refuse":
		return nil, errors.New("ValueError: no licence for grippers")
	case "other version":
		return []any{"hello", 2, 3, 2}, nil
	case "other dimensions":
		return []any{"hello", 1, 4, 2}, nil
	case "discrete":
		return []any{"hello", 1, 3, 2, []int{2, 3}}, nil
	}
	for range k {
		s.toys, s.steps = append(s.toys, &Toy{}), append(s.steps, 0)
	}
	return []any{"hello", 1, 3, 2}, nil
}

// disturb does what goes wrong at a step.
func (s *server) disturb(observation []float64, reward *float64, end *byte) error {
	wrong, path, _ := strings.Cut(s.wrong, " once ")
	if file, found := strings.CutPrefix(wrong, "write "); found {
		if err := os.WriteFile(file, []byte(fmt.Sprint(os.Getpid())), 0o644); err != nil {
			return err
		}
		time.Sleep(math.MaxInt64)
	}
	switch wrong {
	case "crash":
		if path != "" {
			file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o644)
			if err != nil {
				return nil
			}
			file.Close()
		}
		return exit("Segmentation fault in gripper.c")
	case "hang":
		fmt.Fprintln(os.Stderr, "waiting for the gripper")
		hang()
	case "chatter":
		fmt.Println("gripper 1.2, the friendly library")
	case "close":
		os.Stdout.Close()
		hang()
	case "raise":
		return errors.New("raised")
	case "nan":
		observation[1] = math.NaN()
	case "infinite reward":
		*reward = math.Inf(1)
	case "truncated":
		*end = 2
	}
	return nil
}

func exit(words string) error {
	fmt.Fprintln(os.Stderr, words)
	os.Exit(3)
	return nil
}

// hang waits forever, for a process of its own that outlives it.
func hang() {
	child := exec.Command("sleep", "1000000")
	child.Stderr = os.Stderr
	err := child.Start()
	fmt.Fprintln(os.Stderr, "child", child.Process.Pid, err)
	_ = child.Wait()
}
