#include "engine.h"

#if __has_include(<mujoco/mujoco.h>)

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"

__thread guard *engine_guard;

void engine_note(guard *g, int code, const char *message) {
	// Of equals the first is the cause; what follows are its consequences.
	if (code > g->code) {
		snprintf(g->message, ENGINE_MESSAGE, "%s", message);
		g->code = code;
	}
}

static void handle_log(const mjLogMessage *m) {
	guard *g = engine_guard;
	if (m->level == mjLOG_WARNING && g != NULL) {
		engine_note(g, ENGINE_WARNING, m->subject);
	}
	if (m->level < mjLOG_ERROR) {
		return;
	}
	if (g == NULL) { // not in a call of ours: nowhere to go, and the engine cannot go on
		fprintf(stderr, "mujoco: %s\n", m->subject);
		abort();
	}
	engine_guard = NULL;
	engine_note(g, ENGINE_ERROR, m->subject);
	longjmp(g->exit, 1);
}

// The default handler prints, writes a log file into the working directory and, at an error, exits.
__attribute__((constructor)) static void install_log_handler(void) { mju_setLogHandler(handle_log); }

int engine_compile(const char *xml, mjModel **model, char message[ENGINE_MESSAGE]) {
	ENTER(message);
	char reason[ENGINE_MESSAGE - 1] = "";
	*model = NULL;
	mjSpec *spec = mj_parseXMLString(xml, NULL, reason, sizeof reason);
	if (spec == NULL) {
		engine_note(&g, ENGINE_ERROR, reason);
		return LEAVE();
	}
	*model = mj_compile(spec, NULL);
	if (*model == NULL) {
		engine_note(&g, ENGINE_ERROR, mjs_getError(spec));
	}
	mj_deleteSpec(spec);
	return LEAVE();
}

int engine_new(simulation *s) {
	ENTER(s->message);
	s->data = mj_makeData(s->model);
	if (s->data == NULL) {
		engine_note(&g, ENGINE_ERROR, "no memory for the simulation's state");
	}
	return LEAVE();
}

// first_warning notes what the engine counted: it reports only the first warning of a kind to the log.
static void first_warning(guard *g, const mjData *d) {
	for (int i = 0; i < mjNWARNING; i++) {
		if (d->warning[i].number > 0) {
			engine_note(g, ENGINE_WARNING, mju_warningText(i, d->warning[i].lastinfo));
			return;
		}
	}
}

int engine_reset(simulation *s, const double *qpos, const double *qvel) {
	ENTER(s->message);
	const mjModel *m = s->model;
	mjData *d = s->data;
	mj_resetData(m, d);
	if (qpos != NULL) {
		memcpy(d->qpos, qpos, m->nq * sizeof *qpos);
	}
	if (qvel != NULL) {
		memcpy(d->qvel, qvel, m->nv * sizeof *qvel);
	}
	mj_forward(m, d);
	first_warning(&g, d);
	return LEAVE();
}

int engine_step(simulation *s, int n, int contact_forces) {
	ENTER(s->message);
	for (int i = 0; i < n; i++) {
		mj_step(s->model, s->data);
	}
	if (contact_forces) {
		mj_rnePostConstraint(s->model, s->data);
	}
	first_warning(&g, s->data);
	return LEAVE();
}

int engine_contacts(simulation *s, double *out, int most) {
	const mjData *d = s->data;
	int n = d->ncon < most ? d->ncon : most;
	for (int i = 0; i < n; i++, out += 6) {
		const mjContact *c = &d->contact[i];
		mjtNum force[6];
		mj_contactForce(s->model, d, i, force);
		for (int j = 0; j < 3; j++) {
			out[j] = c->pos[j];
			out[3 + j] = c->frame[j] * force[0] + c->frame[3 + j] * force[1] + c->frame[6 + j] * force[2];
		}
	}
	return n;
}

int engine_load(simulation *s, const double *state) {
	ENTER(s->message);
	mj_resetData(s->model, s->data); // what is not part of the state, such as counts of warnings
	mj_setState(s->model, s->data, state, mjSTATE_INTEGRATION);
	return LEAVE();
}

int engine_loop(simulation *s, const double *controls, int rows, int n) {
	ENTER(s->message);
	const mjModel *m = s->model;
	mjData *d = s->data;
	for (int row = 0; row < rows; row++) {
		memcpy(d->ctrl, controls + (size_t)row * m->nu, m->nu * sizeof *controls);
		for (int i = 0; i < n; i++) {
			mj_step(m, d);
		}
	}
	first_warning(&g, d);
	return LEAVE();
}

#endif
