// What the server tells (package web), and how it is asked.

export type State = 'queued' | 'running' | 'lost' | 'paused' | 'stopped' | 'done' | 'failed' | 'cancelled';

export interface Run {
	name: string;
	experiment?: string;
	task: string;
	algorithm: string;
	estimator: string;
	seed: string;
	state: State;
	reason?: string;
	iteration: number;
	iterations: number;
	steps: number;
	return: number | null;
	best: number | null;
	eta: number | null;
	learner?: string;
	epoch?: number;
	heard?: string;
}

export interface Group {
	query: string;
	values: string[];
	runs: number;
	states: Partial<Record<State, number>>;
	iteration: number | null;
	iterations: number | null;
	steps: number | null;
	return: number | null;
	low: number | null;
	high: number | null;
	best: number | null;
	eta: number | null;
	heard?: string;
}

export interface Table {
	now: string;
	all: number;
	total: number;
	states: Partial<Record<State, number>>;
	names: string[];
	runs?: Run[];
	groups?: Group[];
}

export interface Metric {
	name: string;
	group: string;
	help: string;
}

export interface About {
	metrics: Metric[];
	live: boolean;
}

/** get asks for JSON under data/; an error's message is the server's. */
export async function get<T>(path: string, params: Record<string, string> | URLSearchParams = {}, signal?: AbortSignal): Promise<T> {
	const query = new URLSearchParams(params).toString();
	const response = await fetch('data/' + path + (query && '?' + query), { signal });
	const body = await response.json().catch(() => undefined);
	if (!response.ok || body === undefined) {
		throw new Error(body?.error?.message ?? `the server answers ${response.status}`);
	}
	return body as T;
}
