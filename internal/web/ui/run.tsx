// A run: its metrics, settings, evaluations, events, files and log, and its policy at play.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Actions } from './actions';
import { useData, usePolling, type About, type Columns, type Details, type Rows, type Run, type Table } from './api';
import { Chart, type Line } from './chart';
import { choice, Controls } from './curves';
import { Ago, Badge, bytes, duration, number } from './format';
import { changed, go, Link } from './route';
import { Progress, stepsOf } from './runs';

const tabs = ['curves', 'evaluations', 'settings', 'events', 'files', 'log', 'watch'];

export function RunPage(props: { name: string; params: URLSearchParams; about: About; lost: (now: boolean) => void }) {
	const { name, params, about } = props;
	const tab = params.get('tab') ?? 'curves';
	const named = new URLSearchParams({ name });
	const [stamp, setStamp] = useState('');
	const { data, error } = useData<Details>('run', named, stamp, 3000);
	const { rows, run } = useRows(name, props.lost);
	const now = run ?? data?.run;
	useEffect(() => {
		if (run) setStamp(`${run.state} ${run.epoch} ${run.iteration} ${run.best}`);
	}, [run]);
	const change = (next: URLSearchParams) => go('run/' + name, next, true);
	if (error && !data) {
		return (
			<p class="empty">
				{error.message}. <Link to="">All runs</Link>
			</p>
		);
	}
	return (
		<>
			<header class="run">
				<h1>{name}</h1>
				{now && <Facts run={now} />}
				{now && about.actions.length > 0 && <Actions run={now} about={about} />}
			</header>
			<nav class="tabs" aria-label="Parts of the run">
				{tabs
					.filter((t) => t !== 'watch' || about.live)
					.map((t) => (
						<Link key={t} to={'run/' + name} params={changed(params, { tab: t === 'curves' ? undefined : t })} current={t === tab}>
							{t}
						</Link>
					))}
			</nav>
			{tab === 'curves' && <Metrics rows={rows} about={about} params={params} change={change} />}
			{tab === 'evaluations' && <Evaluations columns={data?.evaluations} about={about} />}
			{tab === 'settings' && <Settings settings={data?.settings} params={params} change={change} />}
			{tab === 'events' && <Events events={data?.events} />}
			{tab === 'files' && <Files name={name} files={data?.files} />}
			{tab === 'log' && <Log name={name} version={stamp} />}
			{tab === 'watch' && <Watch run={name} checkpoint={params.get('checkpoint') ?? undefined} />}
		</>
	);
}

/** useRows keeps a run and its rows: means of at most 500 parts at first, then each row as it comes, and means again before they are twice as many. */
function useRows(name: string, lost: (now: boolean) => void): { rows?: Rows; run?: Run } {
	const [rows, setRows] = useState<Rows>();
	const [run, setRun] = useState<Run>();
	const whole = useRef(true); // whether to ask for all rows
	const take = (more: Rows) => {
		setRun(more.run);
		const length = rows?.columns['iteration']?.length ?? 0;
		const added = more.columns['iteration']?.length ?? 0;
		if (whole.current || !rows) setRows(more);
		else if ((whole.current = more.from !== rows.rows || length + added > 1000)) return;
		else if (added > 0) {
			const columns: Columns = {};
			for (const key of Object.keys(more.columns)) columns[key] = [...(rows.columns[key] ?? []), ...more.columns[key]];
			setRows({ ...more, columns });
		}
		whole.current = false;
	};
	usePolling<Rows>(name, 'rows', () => ({ name, ...(!whole.current && rows && { from: String(rows.rows) }) }), take, lost);
	return { rows, run };
}

function Facts(props: { run: Run }) {
	const { run } = props;
	const facts: [string, any][] = [ // those that there are
		['State', <Badge state={run.state} reason={run.reason} />],
		['Iterations', <Progress of={run} />],
		['Steps', stepsOf(run)],
		['Return', number(run.return)],
		['Best evaluation', number(run.best)],
		['Time left', run.eta !== null && duration(run.eta)],
		['Learner', run.learner && `${run.learner}${run.epoch ? `, epoch ${run.epoch}` : ''}`],
		['Last heard of', <Ago time={run.heard} />],
	];
	return (
		<dl class="facts">
			{facts.filter(([, value]) => value).map(([title, value]) => (
				<div key={title}>
					<dt>{title}</dt>
					<dd>{value}</dd>
				</div>
			))}
		</dl>
	);
}

/** Metrics are charts of all metrics, in the groups of docs/metrics.md, with calibration and times as charts of their own. */
function Metrics(props: { rows?: Rows; about: About; params: URLSearchParams; change: (params: URLSearchParams) => void }) {
	const { rows, about, params } = props;
	const axis = choice(params, 'axis');
	const [from, to] = ['from', 'to'].map((bound) => params.get(bound));
	const { x, columns } = useMemo(() => {
		const all = rows?.columns ?? {};
		const along = (all[{ iterations: 'iteration', steps: 'steps', time: 'seconds_elapsed' }[axis] ?? 'iteration'] ?? []) as number[];
		if (from === null && to === null) return { x: along, columns: all };
		const shown = (_: unknown, i: number) => along[i] >= Number(from ?? -Infinity) && along[i] <= Number(to ?? Infinity);
		return { x: along.filter(shown), columns: Object.fromEntries(Object.entries(all).map(([name, values]) => [name, values.filter(shown)])) };
	}, [rows, axis, from, to]);
	const zoom = (from: number, to: number) => props.change(changed(params, { from: from || undefined, to: to || undefined }));
	const groups = [...new Set(about.metrics.filter((m) => !m.name.includes('/')).map((m) => m.group))].sort((a, b) => Number(a === 'run') - Number(b === 'run'));
	const smoothing = Number(choice(params, 'smooth'));
	const chart = (title: string, help: string, names: string[]) => {
		const lines = names.filter((n) => columns[n]?.some((v) => v !== null)).map((n) => ({ name: n, value: columns[n] }));
		return lines.length > 0 && <LiveChart key={title} title={title} help={help} x={x} lines={lines} axis={axis} smoothing={smoothing} log={params.has('log')} zoom={zoom} />;
	};
	if (rows && rows.rows === 0) return <p class="empty">No iteration is complete yet; this page shows the first as soon as it is.</p>;
	return (
		<>
			<div class="panel">
				<Controls about={about} params={params} change={props.change} />
			</div>
			{groups.map((group) => {
				const metrics = about.metrics.filter((m) => m.group === group && !m.name.includes('/'));
				const single = metrics.filter((m) => !together.some((t) => t.names.includes(m.name)));
				return (
					<details open key={group} class="panel">
						<summary>
							<h2>{group}</h2>
						</summary>
						<div class="charts">
							{together.filter((t) => t.group === group).map((t) => chart(t.title, t.help, t.names))}
							{single.map((m) => chart(m.name, m.help, [m.name]))}
						</div>
					</details>
				);
			})}
			{rows && <Calibration rows={rows} />}
			{about.one && <Stages version={Math.floor((rows?.rows ?? 0) / 10)} />}
		</>
	);
}

/** together are metrics that belong into one chart. */
const together = [
	{ group: 'return', title: 'return', help: 'Mean, lowest and highest return of a batch', names: ['return_mean', 'return_min', 'return_max'] },
	{ group: 'critic', title: 'coverage', help: 'Share of held-out targets within the 50 % and the 90 % intervals: 0.5 and 0.9 if the critic is calibrated', names: ['coverage_50', 'coverage_90'] },
	{ group: 'seconds', title: 'time of an iteration', help: 'Seconds of sampling and of updating', names: ['seconds_sampling', 'seconds_updating', 'seconds_processor'] },
	{ group: 'critic', title: 'held-out log likelihood', help: 'Of the process, and of a Gaussian that knows no states', names: ['held_out_log_likelihood', 'gaussian_log_likelihood'] },
];

/** LiveChart keeps the lines' identity while their values stay, so that only what has changed is drawn. */
function LiveChart(props: { title: string; help: string; x: number[]; lines: Line[]; axis: string; smoothing: number; log: boolean; zoom: (from: number, to: number) => void }) {
	const lines = useMemo(() => props.lines, [props.x, props.lines.map((l) => l.name).join()]);
	return <Chart {...props} lines={lines} height={190} sync="run" />;
}

/** Calibration compares coverage, over the last tenth of the run, with the level. */
function Calibration(props: { rows: Rows }) {
	const levels = [50, 90].map((level) => {
		const values = (props.rows.columns[`coverage_${level}`] ?? []).filter((v) => v !== null) as number[];
		const last = values.slice(-Math.max(1, Math.ceil(values.length / 10)));
		return { level, coverage: last.length > 0 ? last.reduce((a, b) => a + b, 0) / last.length : null };
	});
	if (levels.every((l) => l.coverage === null)) return null;
	return (
		<section class="panel">
			<h2>calibration</h2>
			<table class="small">
				<caption>
					Share of held-out targets within the critic's intervals over the last tenth of the run, against the intervals' level (the mark). Below it the critic is
					too sure, above it not sure enough.
				</caption>
				<thead>
					<tr>
						<th scope="col">Level</th>
						<th scope="col">Coverage</th>
						<th scope="col">
							<span class="hidden">Drawn</span>
						</th>
					</tr>
				</thead>
				<tbody>
					{levels.map(({ level, coverage }) => (
						<tr key={level}>
							<th scope="row">{level} %</th>
							<td>{coverage === null ? '–' : `${(100 * coverage).toFixed(1)} %`}</td>
							<td>
								<svg class="coverage" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
									<rect width="100" height="10" fill="var(--soft)" />
									<rect width={100 * (coverage ?? 0)} height="10" fill="var(--curve-0)" />
									<rect x={level - 0.5} width="1" height="10" fill="var(--text)" />
								</svg>
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

/** Stages shows how long the stages of an update take, by the metrics of the program that serves this page and trains. */
function Stages(props: { version: number }) {
	const [stages, setStages] = useState<[string, number][]>([]);
	useEffect(() => {
		fetch('metrics')
			.then((r) => r.text())
			.then((text) => {
				const found = [...text.matchAll(/^dbqpg_learner_stage_seconds_(sum|count)\{stage="(\w+)"\} (\S+)$/gm)];
				const of = (kind: string) => new Map(found.filter((m) => m[1] === kind).map((m) => [m[2], Number(m[3])]));
				const counts = of('count');
				setStages([...of('sum')].map(([stage, sum]): [string, number] => [stage, sum / (counts.get(stage) || 1)]).sort((a, b) => b[1] - a[1]));
			})
			.catch(() => {}); // the next version asks again
	}, [props.version]);
	if (stages.length === 0) return null;
	const longest = Math.max(...stages.map(([, seconds]) => seconds));
	return (
		<section class="panel">
			<h2>stages of an update</h2>
			<table class="small">
				<caption>Mean time of each since the program started</caption>
				<tbody>
					{stages.map(([stage, seconds]) => (
						<tr key={stage}>
							<th scope="row">{stage}</th>
							<td>{seconds < 1 ? `${number(1000 * seconds)} ms` : `${number(seconds)} s`}</td>
							<td>
								<progress max={longest} value={seconds} aria-label={`time of ${stage}`} />
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

function Evaluations(props: { columns?: Columns; about: About }) {
	const columns = props.columns;
	const iterations = (columns?.['iteration'] ?? []) as number[];
	const lines = useMemo(() => {
		const kinds = ['mean_action', 'sampled_action'].filter((kind) => columns?.[kind + '_return']);
		return kinds.map((kind) => {
			const value = columns![kind + '_return'];
			const error = columns![kind + '_standard_error'];
			const edge = (sign: number) => value.map((v, i) => (v === null || error?.[i] == null ? v : v + sign * 1.96 * error[i]!));
			return { name: kind.replace('_', ' '), value, low: edge(-1), high: edge(1) };
		});
	}, [columns]);
	if (columns && iterations.length === 0) return <p class="empty">No checkpoint has been evaluated: --evaluate-every says how often that happens.</p>;
	return (
		<>
			<section class="panel">
				<Chart title="mean return, with its 95 % interval" x={iterations} lines={lines} axis="iterations" height={300} />
			</section>
			<section class="panel scroll">
				<table class="small">
					<thead>
						<tr>
							{['iteration', 'steps', 'episodes', 'mean_action_return', 'mean_action_iqm', 'sampled_action_return', 'mean_action_length'].map((c) => (
								<th scope="col" key={c} title={props.about.metrics.find((m) => m.name === 'evaluation/' + c)?.help}>
									{c.replaceAll('_', ' ').replace('iqm', 'IQM')}
								</th>
							))}
						</tr>
					</thead>
					<tbody>
						{iterations.map((it, i) => (
							<tr key={it}>
								<th scope="row">{it}</th>
								{['steps', 'episodes', 'mean_action_return', 'mean_action_iqm', 'sampled_action_return', 'mean_action_length'].map((c) => (
									<td key={c}>{number(columns?.[c]?.[i])}</td>
								))}
							</tr>
						)).reverse()}
					</tbody>
				</table>
			</section>
		</>
	);
}

/** Settings are a run's configuration, beside another's where they differ. */
function Settings(props: { settings?: Record<string, string>; params: URLSearchParams; change: (params: URLSearchParams) => void }) {
	const with_ = props.params.get('with') ?? '';
	const [other, setOther] = useState(with_);
	const { data, error } = useData<Details>(with_ ? 'run' : null, new URLSearchParams({ name: with_ }));
	const others = useData<Table>('runs', new URLSearchParams({ limit: '500' })).data?.runs ?? [];
	const settings = props.settings ?? {};
	const names = [...new Set([...Object.keys(settings), ...Object.keys(with_ ? (data?.settings ?? {}) : {})])];
	const compared = with_ !== '' && data !== undefined;
	const rows = compared ? names.filter((n) => settings[n] !== data.settings[n]) : names;
	return (
		<section class="panel">
			<form
				class="controls"
				onSubmit={(e) => {
					e.preventDefault();
					props.change(changed(props.params, { with: other.trim() }));
				}}
			>
				<label class="search">
					Difference to the run
					<input list="others" value={other} onInput={(e) => setOther(e.currentTarget.value)} placeholder="name of another run" spellcheck={false} />
					<datalist id="others">
						{others.map((r) => (
							<option key={r.name} value={r.name} />
						))}
					</datalist>
				</label>
				<button>Compare</button>
			</form>
			{error && with_ && <p class="error" role="alert">{error.message}</p>}
			<div class="scroll">
				<table class="small settings">
					<thead>
						<tr>
							<th scope="col">Setting</th>
							<th scope="col">{compared ? 'This run' : 'Value'}</th>
							{compared && <th scope="col">{with_}</th>}
						</tr>
					</thead>
					<tbody>
						{rows.map((n) => (
							<tr key={n}>
								<th scope="row">
									<code>{n}</code>
								</th>
								<td>{settings[n] ?? '–'}</td>
								{compared && <td>{data.settings[n] ?? '–'}</td>}
							</tr>
						))}
					</tbody>
				</table>
			</div>
			{compared && <p class="empty">{rows.length === 0 ? 'The two have the same settings.' : `The other ${names.length - rows.length} settings are the same.`}</p>}
		</section>
	);
}

function Events(props: { events?: Details['events'] }) {
	if (props.events?.length === 0) return <p class="empty">Nothing is known to have happened: no warning, no error, no change of hands.</p>;
	return (
		<section class="panel">
			<ul class="events">
				{props.events?.map((e, i) => (
					<li key={i} class={e.level}>
						<strong>{e.level}</strong> {e.time && <Ago time={e.time} />} {e.text}
					</li>
				)).reverse()}
			</ul>
		</section>
	);
}

function Files(props: { name: string; files?: Details['files'] }) {
	if (props.files?.length === 0) return <p class="empty">There are no files yet, or the store that has them is out of reach from here.</p>;
	return (
		<section class="panel scroll">
			<table class="small">
				<thead>
					<tr>
						<th scope="col">File</th>
						<th scope="col">Size</th>
						<th scope="col">Written</th>
					</tr>
				</thead>
				<tbody>
					{props.files?.map((f) => (
						<tr key={f.name}>
							<th scope="row">
								<a href={'data/file?' + new URLSearchParams({ name: props.name, file: f.name })} download>
									{f.name}
								</a>
							</th>
							<td>{bytes(f.size)}</td>
							<td>
								<Ago time={f.modified} />
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</section>
	);
}

function Log(props: { name: string; version: string }) {
	const { data } = useData<{ text: string }>('log', new URLSearchParams({ name: props.name }), props.version);
	const end = useRef<HTMLPreElement>(null);
	useEffect(() => end.current?.scrollTo(0, end.current.scrollHeight), [data?.text]);
	if (data?.text === '') return <p class="empty">There is no log here: a learner that has ended keeps none, workers store theirs beside the run.</p>;
	return (
		<section class="panel">
			<pre class="log" ref={end} tabIndex={0} aria-label="End of the log">
				{data?.text}
			</pre>
		</section>
	);
}

/** Watch is the tab in which the policy plays; its code is loaded when it is first opened. */
function Watch(props: { run: string; checkpoint?: string }) {
	const element = useRef<HTMLDivElement>(null);
	useEffect(() => {
		let end = () => {};
		let ended = false;
		import('./play').then((play) => {
			if (!ended) end = play.mount(element.current!, props);
		});
		return () => {
			ended = true;
			end();
		};
	}, [props.run, props.checkpoint]);
	return <div class="watch" ref={element} />;
}
