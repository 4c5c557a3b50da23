package play

import (
	"math"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, wrong := range map[string]string{
		`{"do":"pause"}`:                                           "",
		`{ "do":"speed","speed":0.125 }`:                           "",
		`{"do":"speed","speed":4}`:                                 "",
		`{"do":"speed","speed":4.1}`:                               "speed 4.1",
		`{"do":"speed"}`:                                           "speed 0",
		`{"do":"reset","seed":9007199254740992,"episode":7}`:       "",
		`{"do":"reset","seed":9007199254740993,"episode":7}`:       "too large",
		`{"do":"reset","seed":1,"episode":4294967296}`:             "too large",
		`{"do":"reset","seed":-1}`:                                 "cannot unmarshal",
		`{"do":"action","action":"sampled"}`:                       "",
		`{"do":"action","action":""}`:                              "must be",
		`{"do":"checkpoint","checkpoint":"newest"}`:                "",
		`{"do":"checkpoint","checkpoint":"12"}`:                    "",
		`{"do":"checkpoint","checkpoint":"../12"}`:                 "must be",
		`{"do":"push","body":1,"point":[0,1,2],"force":[1,1,1e9]}`: "",
		`{"do":"push","body":1,"force":[1,1,1e999]}`:               "cannot unmarshal",
		`{"do":"push","body":1,"force":[1.5e308,1.5e308,0]}`:       "out of bounds",
		`{"do":"push","body":1,"point":[0,0,101]}`:                 "out of bounds",
		`{"do":"push","body":1.5}`:                                 "cannot unmarshal",
		`{"do":"fly"}`:                                             "unknown command",
		`{"do":"play","more":1}`:                                   "unknown field",
		`{"do":"play"}{"do":"play"}`:                               "more than one",
		`["play"]`:                                                 "cannot unmarshal",
		``:                                                         "EOF",
	} {
		if _, err := parse([]byte(text)); (err == nil) != (wrong == "") || err != nil &&
			!strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
}

// Whatever a viewer sends is refused or within bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"do":"push","body":1,"point":[0,1,2],"force":[1,1,1e9]}`))
	f.Add([]byte(`{"do":"reset","seed":9007199254740992,"episode":7}`))
	f.Add([]byte(`{"do":"speed","speed":0.125}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			return
		}
		for _, x := range append(c.Point[:], c.Force[:]...) {
			if c.Do == "push" && (math.IsNaN(x) || math.IsInf(x, 0)) {
				t.Errorf("%q pushes with %v", data, x)
			}
		}
		if c.Do == "speed" && !(c.Speed >= minSpeed && c.Speed <= maxSpeed) || c.Do == "reset" &&
			c.Episode >= maxIndex {
			t.Errorf("%q is %+v", data, c)
		}
	})
}
