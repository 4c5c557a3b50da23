// What the server tells (package web), and how it is asked.

import { useEffect, useRef, useState } from 'preact/hooks';

export type State = 'queued' | 'running' | 'lost' | 'paused' | 'stopped' | 'done' | 'failed' | 'cancelled';
type Value = number | null;

/** Row is what runs and groups of them have in common in the table. */
export interface Row {
	iteration: Value;
	iterations: Value;
	steps: Value;
	all_steps: Value;
	return: Value;
	best: Value;
	eta: Value; // seconds
	heard?: string;
}

export interface Run extends Row {
	name: string;
	experiment?: string;
	task: string;
	algorithm: string;
	estimator: string;
	seed: string;
	state: State;
	reason?: string;
	learner?: string;
	epoch?: number;
}

export interface Group extends Row {
	query: string;
	values: string[];
	runs: number;
	states: Partial<Record<State, number>>;
	low: Value;
	high: Value;
}

export interface Table {
	now: string;
	version: string; // changes with the runs
	all: number;
	total: number;
	states: Partial<Record<State, number>>;
	names: string[];
	runs?: Run[];
	groups?: Group[];
}

export interface Curve {
	query: string;
	runs: number;
	value: Value[];
	low: Value[];
	high: Value[];
	count: number[];
}

export interface Curves {
	x: number[];
	curves: Curve[];
}

export type Columns = Record<string, Value[]>;

export interface Rows {
	run: Run;
	from: number;
	rows: number;
	columns: Columns;
}

export interface Details {
	run: Run;
	settings: Record<string, string>;
	files: { name: string; size: number; modified: string }[];
	events: { time?: string; level: string; text: string }[];
	evaluations: Columns;
}

export interface Metric {
	name: string;
	group: string;
	help: string;
}

export interface About {
	metrics: Metric[];
	live: boolean; // whether policies can be watched
	files: boolean; // whether there are curves
	one: boolean; // whether there is one run only, a process's own
	actions: string[]; // that the user may take
	login: boolean; // whether a token can be given
	user?: string;
}

/** Failure is an error with the server's status. */
export class Failure extends Error {
	constructor(
		readonly status: number,
		message: string,
	) {
		super(message);
	}
}

async function ask<T>(path: string, options: RequestInit): Promise<T> {
	let response: Response;
	try {
		response = await fetch('data/' + path, options);
	} catch (error) {
		if (options.signal?.aborted) throw error;
		throw new Failure(0, 'The server does not answer. Is the program still running? This page goes on by itself once it is.');
	}
	const body = await response.json().catch(() => undefined);
	if (!response.ok || body === undefined) {
		throw new Failure(response.status, body?.error?.message ?? `The server answers ${response.status}.`);
	}
	return body as T;
}

/** get asks for JSON under data/. */
export function get<T>(path: string, params: URLSearchParams | Record<string, string>, signal?: AbortSignal): Promise<T> {
	const query = new URLSearchParams(params).toString();
	return ask<T>(path + (query && '?' + query), { signal });
}

/** post sends JSON to data/. */
export function post<T>(path: string, body: unknown): Promise<T> {
	return ask<T>(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
}

export interface Answer<T> {
	data?: T; // the newest answer, also while another is awaited
	error?: Error;
	loading: boolean;
}

/**
 * useData asks for JSON, again whenever the address changes, and for another version once the last answer is there and pause milliseconds have passed
 * since it was asked for: versions may change faster than answers come.
 */
export function useData<T>(path: string | null, params: URLSearchParams, version: unknown = 0, pause = 2000): Answer<T> {
	const [answer, setAnswer] = useState<Answer<T>>({ loading: true });
	const address = path === null ? null : path + '?' + params;
	const wanted = useRef(version);
	wanted.current = version;
	const check = useRef(() => {}); // whether there is a newer version
	useEffect(() => {
		if (address === null) return;
		const abort = new AbortController();
		let timer = 0;
		let busy = true; // asking, or about to
		let asked: unknown; // version
		let last: T | undefined; // answer
		const ask = () => {
			asked = wanted.current;
			const time = Date.now();
			const done = (next: Answer<T>, wait: number) => {
				if (abort.signal.aborted) return;
				setAnswer(next);
				busy = false;
				check.current = () => {
					if (busy || (asked === wanted.current && !next.error)) return;
					busy = true;
					timer = window.setTimeout(ask, Math.max(0, time + wait - Date.now()));
				};
				check.current();
			};
			get<T>(path!, params, abort.signal).then(
				(data) => done({ data: (last = data), loading: false }, pause),
				(error) => done({ data: last, error, loading: false }, Date.now() - time + 5000),
			);
		};
		setAnswer((before) => ({ ...before, loading: true }));
		ask();
		return () => {
			clearTimeout(timer);
			abort.abort();
			check.current = () => {};
		};
	}, [address]);
	useEffect(() => check.current(), [version]);
	return answer;
}

/**
 * usePolling asks for JSON every two seconds, while the page is in sight, until the key changes or is null; it calls lost with whether there is no
 * connection.
 */
export function usePolling<T>(key: string | null, path: string, params: () => Record<string, string>, take: (answer: T) => void, lost: (now: boolean) => void) {
	const current = useRef({ params, take });
	current.current = { params, take };
	useEffect(() => {
		if (key === null) return;
		const abort = new AbortController();
		let timer = 0;
		const ask = () => {
			clearTimeout(timer);
			timer = window.setTimeout(ask, 2000);
			if (document.hidden || busy) return;
			busy = true;
			get<T>(path, current.current.params(), abort.signal)
				.then(
					(answer) => {
						if (abort.signal.aborted) return;
						lost(false);
						current.current.take(answer);
					},
					(error) => abort.signal.aborted || lost(error.status === 0 || error.status >= 500),
				)
				.then(() => (busy = false));
		};
		let busy = false;
		ask();
		document.addEventListener('visibilitychange', ask);
		return () => {
			clearTimeout(timer);
			abort.abort();
			document.removeEventListener('visibilitychange', ask);
		};
	}, [key]);
}
