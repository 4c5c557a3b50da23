// The engine behind a plain C interface that Go can call: errors come back as codes, never as an abort.
#ifndef DBQPG_ENGINE_H_
#define DBQPG_ENGINE_H_

#if !__has_include(<mujoco/mujoco.h>)
#error "MuJoCo is not set up: run `make setup` in the repository's root"
#else

#include <mujoco/mujoco.h>

#if mjVERSION_HEADER != 3017000
#error "another version of MuJoCo is set up than this code is written for: run `make setup` in the repository's root"
#endif

enum { ENGINE_OK, ENGINE_WARNING, ENGINE_ERROR }; // each outranks those before it
enum { ENGINE_MESSAGE = 1024 };

// A simulation is a model's state, with room for what went wrong in the latest call.
typedef struct {
	const mjModel *model;
	mjData *data;
	char message[ENGINE_MESSAGE];
} simulation;

// Each function returns a code of the first enum and, unless it is ENGINE_OK, leaves a message.

// engine_compile makes a model of MJCF text, to be freed with mj_deleteModel.
int engine_compile(const char *xml, mjModel **model, char message[ENGINE_MESSAGE]);

// engine_new allocates the state of a model, to be freed with mj_deleteData.
int engine_new(simulation *s);

// engine_reset clears the whole state (solver warm starts, warnings, time), sets positions and velocities to
// those given and computes everything that follows from them. NULL stands for the model's initial positions
// and zero velocities.
int engine_reset(simulation *s, const double *qpos, const double *qvel);

// engine_step makes n engine steps under the controls in data->ctrl; with contact_forces, it then fills cfrc_ext,
// which the engine otherwise leaves zero.
int engine_step(simulation *s, int n, int contact_forces);

// engine_contacts writes the position and the force of each contact in the world, 6 numbers each, as the latest step has found them,
// and returns how many it wrote, at most the given number. The force is that on the second of the two geoms.
int engine_contacts(simulation *s, double *out, int most);

// engine_load clears the whole state and sets that of mj_getState for mjSTATE_INTEGRATION.
int engine_load(simulation *s, const double *state);

// engine_loop is a bare loop around mj_step: rows of controls (one number an actuator), n engine steps each.
int engine_loop(simulation *s, const double *controls, int rows, int n);

#endif
#endif
