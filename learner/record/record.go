// Package record films episodes of a trained policy with MuJoCo's own renderer. It implements `learner record`.
package record

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/mujoco"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// ErrUnavailable is wrapped by errors about missing programs and libraries, and about tasks that cannot be drawn.
var ErrUnavailable = errors.New("cannot film")

// mostFrames is about how many frames a second of the simulation has at most.
const mostFrames = 30

// Film describes a film.
type Film struct {
	Episodes      int    // the first ones of an evaluation
	Seed          uint64 // of that evaluation
	Width, Height int    // pixels, even
}

// Record writes episodes with the mean action as an MP4 file, in the simulation's own time. It returns how they ended.
func Record(ctx context.Context, c *runs.Checkpoint, f Film, path string) ([]evaluate.Episode, error) {
	p, err := c.Policy()
	if err != nil {
		return nil, err
	}
	if c.Settings["task"] != "" {
		return nil, fmt.Errorf("%w: %s is simulated by another program (its task file)", ErrUnavailable, c.Task())
	}
	env, err := tasks.New(c.Task())
	if err != nil {
		return nil, err
	}
	defer env.Close()
	scene := env.(tasks.Scene)
	every := max(1, int(1/(mostFrames*scene.StepSeconds())))
	encoder, err := start(ctx, f, float64(every)*scene.StepSeconds(), path+atomicfile.Suffix)
	if err != nil {
		return nil, err
	}
	episodes, err := evaluate.Play(ctx, evaluate.Episodes{
		NewEnv: func() (sim.Env, error) { return f.newCamera(env, scene, every, encoder) },
		Shape:  p.Shape, Params: p.Params, Normalizer: p.Normalizer,
		Action: evaluate.Mean, Seed: f.Seed, Count: f.Episodes, Workers: 1,
	})
	if ended := encoder.end(); err == nil || errors.Is(err, errEncoder) {
		err = cmp.Or(ended, err)
	}
	if err == nil {
		err = os.Rename(path+atomicfile.Suffix, path)
	}
	if err != nil {
		return nil, errors.Join(err, ignoreMissing(os.Remove(path+atomicfile.Suffix)))
	}
	return episodes, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// camera is an environment that is filmed.
type camera struct {
	sim.Env
	data     *mujoco.Data
	every    int // steps a frame
	steps    int // of the episode
	renderer *mujoco.Renderer
	rgb      []byte
	out      io.Writer
}

func (f Film) newCamera(env sim.Env, scene tasks.Scene, every int, out io.Writer) (*camera, error) {
	model, data := scene.Simulation()
	r, err := mujoco.NewRenderer(model, f.Width, f.Height)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: install one "+
			"(Debian, Ubuntu: apt install libegl1 libgl1-mesa-dri, or libosmesa6)", ErrUnavailable, err)
	}
	rgb := make([]byte, 3*f.Width*f.Height)
	return &camera{Env: env, data: data, every: every, renderer: r, rgb: rgb, out: out}, nil
}

func (c *camera) Reset(rng *rand.Rand, observation []float64) error {
	if err := c.Env.Reset(rng, observation); err != nil {
		return err
	}
	c.steps = 0
	return c.shoot()
}

func (c *camera) Step(action, observation []float64) (reward float64, terminated bool, err error) {
	reward, terminated, err = c.Env.Step(action, observation)
	if c.steps++; err == nil && c.steps%c.every == 0 {
		err = c.shoot()
	}
	return reward, terminated, err
}

func (c *camera) shoot() error {
	if err := c.renderer.Render(c.data, c.rgb); err != nil {
		return err
	}
	_, err := c.out.Write(c.rgb)
	return err
}

// Close ends the filming; the environment itself goes on.
func (c *camera) Close() error {
	c.renderer.Close()
	return nil
}

// encoder is ffmpeg at work, taking frames.
type encoder struct {
	command *exec.Cmd
	frames  io.WriteCloser
	words   bytes.Buffer // its error messages
}

// errEncoder is wrapped by errors that ffmpeg explains when it ends.
var errEncoder = errors.New("ffmpeg takes no more frames")

func start(ctx context.Context, f Film, frameSeconds float64, path string) (*encoder, error) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, fmt.Errorf("%w: ffmpeg is not found: install it (Debian, Ubuntu: apt install ffmpeg)",
			ErrUnavailable)
	}
	e := &encoder{command: exec.CommandContext(ctx, program, "-loglevel", "error", "-y",
		"-f", "rawvideo", "-pixel_format", "rgb24", "-video_size", fmt.Sprintf("%dx%d", f.Width, f.Height),
		"-framerate", strconv.FormatFloat(1/frameSeconds, 'f', 3, 64), "-i", "-",
		"-vf", "vflip", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4", "file:"+path)}
	e.command.Stderr = &e.words
	if e.frames, err = e.command.StdinPipe(); err == nil {
		err = e.command.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start ffmpeg: %w", err)
	}
	return e, nil
}

func (e *encoder) Write(frame []byte) (int, error) {
	n, err := e.frames.Write(frame)
	if err != nil {
		err = fmt.Errorf("%w: %w", errEncoder, err)
	}
	return n, err
}

// end waits until the file is complete.
func (e *encoder) end() error {
	_ = e.frames.Close() // it may have ended by itself, which Wait reports
	if err := e.command.Wait(); err != nil {
		return fmt.Errorf("ffmpeg: %w: %s", err, strings.Join(strings.Fields(e.words.String()), " "))
	}
	return nil
}
