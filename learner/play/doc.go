// Package play plays policies in real time for viewers in a browser, who watch the robot, slow it down, and push it. It
// implements `learner play`, and the moving pictures on the pages of runs.
//
// A viewer is a WebSocket with a simulation of its own. It plays the episodes of package evaluate: episode i with the
// seed s and the mean action is, to the last bit, episode i of `learner evaluate --seed s`, until the viewer pushes the
// robot. A training run is not disturbed: policies are read from its checkpoints, and evaluations have random streams
// of their own.
//
// # Messages
//
// The server sends text messages, in JSON, when something changes ([Message]), and a binary message for each frame, at
// most 60 a second. All numbers of a frame are little-endian:
//
//	offset  type     meaning
//	0       uint32   steps since the beginning of the episode; 0: the episode begins
//	4       uint32   index of the episode
//	8       float64  return so far
//	16      float32  reward of the step
//	20      float32  time since the beginning, in s of the simulation
//	24      uint16   1: the task has ended the episode, 2: the time limit has
//	26      uint16   number of contacts
//	28      float32  for each actuator, the control that the engine applied
//	        float32  for each body but the world: position (3), quaternion w, x, y, z (4)
//	        float32  for each contact: position (3), force (3)
//
// Poses and contacts are from the beginning of the engine's latest step, as everywhere in MuJoCo.
//
// The viewer sends commands, in JSON ([Command]). It is not trusted: messages and rates are bounded, numbers are
// checked, and a viewer that stops reading is disconnected after a few seconds. It stalls no other: each frame is sent
// by the goroutine that steps its own simulation, and only the latest one is in memory.
package play
