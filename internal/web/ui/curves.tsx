// The curves of groups of runs, and the choice of what they show.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { useData, type About, type Curves } from './api';
import { Chart } from './chart';
import { changed } from './route';

export const axes = ['iterations', 'steps', 'time'];

/** Choices are in the page's address; these are their defaults. */
export const defaults = { metric: 'return_mean', axis: 'iterations', statistic: 'mean', smooth: '0' };

/** choice returns one of a page's choices. */
export function choice(params: URLSearchParams, name: keyof typeof defaults): string {
	return params.get(name) ?? defaults[name];
}

/** label names a group by what tells it from the others. */
export function labels(queries: string[]): string[] {
	const terms = queries.map((q): string[] => q.match(/(?:[^\s"]|"[^"]*")+/g) ?? []);
	return terms.map((own, i) => {
		const differing = own.filter((t) => !terms.every((other) => other.includes(t)));
		const chosen = differing.length > 0 ? differing : own;
		return chosen.map((t) => (/^(name|task|algorithm|estimator|experiment)=/.test(t) ? t.slice(t.indexOf('=') + 1) : t)).join(' ') || queries[i] || 'all runs';
	});
}

export function CurvesPanel(props: {
	queries: string[];
	about: About;
	params: URLSearchParams;
	change: (params: URLSearchParams) => void;
	version: unknown;
	height: number;
}) {
	const { params, queries } = props;
	const metric = choice(params, 'metric');
	const axis = choice(params, 'axis');
	const request = new URLSearchParams({ metric, axis, statistic: choice(params, 'statistic') });
	for (const bound of ['from', 'to']) if (params.has(bound)) request.set(bound, params.get(bound)!);
	for (const q of queries) request.append('q', q);
	const { data, error, loading } = useData<Curves>(queries.length > 0 ? 'curves' : null, request, props.version, 3000);
	const lines = useMemo(() => {
		const names = labels(data?.curves.map((c) => c.query) ?? []);
		return (data?.curves ?? []).map((c, i) => ({ name: names[i] + (c.runs === 1 ? '' : c.runs ? ` (${c.runs} runs)` : ' (no values yet)'), ...c }));
	}, [data]);
	const description = props.about.metrics.find((m) => m.name === metric);
	return (
		<section class="panel" aria-label="Curves" aria-busy={loading}>
			<Controls about={props.about} params={params} change={props.change} groups />
			{error && <p class="error" role="alert">{error.message}</p>}
			<Chart
				title={description ? `${metric.replace('evaluation/', '')}: ${description.help}` : metric}
				x={data?.x ?? []}
				lines={lines}
				axis={metric.startsWith('evaluation/') && axis === 'time' ? 'iterations' : axis}
				height={props.height}
				smoothing={Number(choice(params, 'smooth'))}
				log={params.has('log')}
				zoom={(from, to) => props.change(changed(params, { from: from || undefined, to: to || undefined }))}
			/>
			{data && data.x.length === 0 && <p class="empty">These runs have no values of {metric} yet.</p>}
		</section>
	);
}

/** Controls choose the metric, the axis and how curves are drawn. */
export function Controls(props: { about: About; params: URLSearchParams; change: (params: URLSearchParams) => void; groups?: boolean }) {
	const { params } = props;
	const set = (name: string, value: string | undefined) => props.change(changed(params, { [name]: value }));
	const groups = [...new Set(props.about.metrics.map((m) => m.group))];
	const [smooth, setSmooth] = useState(choice(params, 'smooth')); // while the slider moves
	useEffect(() => setSmooth(choice(params, 'smooth')), [params.get('smooth')]);
	return (
		<div class="controls">
			{props.groups && (
				<label>
					Metric
					<select value={choice(params, 'metric')} onChange={(e) => set('metric', e.currentTarget.value)}>
						{groups.map((group) => (
							<optgroup label={group} key={group}>
								{props.about.metrics
									.filter((m) => m.group === group)
									.map((m) => (
										<option key={m.name} value={m.name} title={m.help}>
											{m.name.replace('evaluation/', '')}
										</option>
									))}
							</optgroup>
						))}
					</select>
				</label>
			)}
			<label>
				Over
				<select value={choice(params, 'axis')} onChange={(e) => props.change(changed(params, { axis: e.currentTarget.value, from: undefined, to: undefined }))}>
					{axes.map((a) => (
						<option key={a}>{a}</option>
					))}
				</select>
			</label>
			{props.groups && (
				<label title="Of the runs of a group, with its 95 % t interval; the interquartile mean leaves out the lowest and the highest quarter">
					Runs
					<select value={choice(params, 'statistic')} onChange={(e) => set('statistic', e.currentTarget.value)}>
						<option value="mean">mean</option>
						<option value="iqm">interquartile mean</option>
					</select>
				</label>
			)}
			<label title="Weight of an exponential moving average">
				<span>Smoothing {smooth !== '0' && smooth}</span>
				<input
					type="range"
					min="0"
					max="0.98"
					step="0.02"
					value={smooth}
					onInput={(e) => setSmooth(e.currentTarget.value)}
					onChange={(e) => set('smooth', e.currentTarget.value === '0' ? undefined : e.currentTarget.value)}
				/>
			</label>
			<label class="check">
				<input type="checkbox" checked={params.has('log')} onChange={(e) => set('log', e.currentTarget.checked ? '1' : undefined)} />
				log scale
			</label>
			{(params.has('from') || params.has('to')) && (
				<button type="button" onClick={() => props.change(changed(params, { from: undefined, to: undefined }))}>
					Show all
				</button>
			)}
		</div>
	);
}
