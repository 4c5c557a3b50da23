// The table of runs: filtered, sorted, grouped; and the curves of the groups that are chosen in it.

import { useEffect, useState } from 'preact/hooks';
import { useData, type About, type Group, type Row, type Run, type State, type Table } from './api';
import { Swatch } from './chart';
import { CurvesPanel } from './curves';
import { Ago, Badge, Cut, duration, number, short } from './format';
import { changed, go, Link } from './route';

const pageSize = 100;
const most = 12; // groups compared

/** Column is a column of the table; those that are not narrow are left out on small screens. */
interface Column {
	name: string;
	title: string;
	help?: string;
	narrow?: boolean;
	cell: (row: Run & Group) => any;
}

const columns: Column[] = [
	{ name: 'iteration', title: 'Iteration', narrow: true, cell: (r) => <Progress of={r} /> },
	{ name: 'steps', title: 'Steps', cell: stepsOf },
	{
		name: 'return',
		title: 'Return',
		narrow: true,
		help: 'mean return of the last batch; of a group the mean of its runs, with its 95 % interval',
		cell: (r) => (
			<>
				{number(r.return)}
				{r.low !== null && r.low !== undefined && <small> ± {number((r.high! - r.low) / 2)}</small>}
			</>
		),
	},
	{ name: 'best', title: 'Best', help: 'mean return of the best evaluation', cell: (r) => number(r.best) },
	{ name: 'eta', title: 'Time left', help: 'if it goes on as fast as so far', cell: (r) => duration(r.eta) },
	{ name: 'heard', title: 'Last heard of', cell: (r) => <Ago time={r.heard} /> },
];

/** Progress shows iterations, of how many, or of a run of so many steps the share of these. */
export function Progress(props: { of: Row }) {
	const { iteration, iterations, steps, all_steps } = props.of;
	const [done, all] = all_steps ? [steps, all_steps] : [iteration, iterations];
	const whole = (n: number) => n.toLocaleString('en', { maximumFractionDigits: 0 });
	return (
		<span class="progress">
			<progress value={done ?? 0} max={all || done || 1} aria-label="share completed" />
			{whole(iteration ?? 0)}{!all_steps && '/' + (iterations ? whole(iterations) : '?')}
		</span>
	);
}

/** stepsOf shows environment steps, of how many if that is how long the run is. */
export function stepsOf(row: Row) {
	return short(row.steps) + (row.all_steps ? '/' + short(row.all_steps) : '');
}

export function RunsPage(props: { params: URLSearchParams; about: About; version: unknown }) {
	const { params } = props;
	const grouping = params.get('group') ?? '';
	const change = (next: URLSearchParams) => go('', next, true);
	const request = new URLSearchParams({ limit: String(pageSize) });
	for (const name of ['q', 'group', 'sort', 'desc', 'offset']) if (params.has(name)) request.set(name, params.get(name)!);
	const { data, error, loading } = useData<Table>('runs', request, props.version);
	const rows = (data?.groups ?? data?.runs ?? []) as (Run & Group)[];
	const queryOf = (row: Run & Group) => withFilter(params.get('q') ?? '', row.query ?? `name=${quoted(row.name)}`);
	const chosen = params.getAll('g');
	const shown = chosen.length > 0 ? chosen : rows.slice(0, 5).map(queryOf); // the first, until some are chosen
	const choose = (query: string, on: boolean) => {
		const next = new URLSearchParams(params);
		next.delete('g');
		for (const q of on ? [...shown, query] : shown.filter((g) => g !== query)) next.append('g', q);
		change(next);
	};
	const sort = (name: string) => {
		const descending = params.get('sort') === name ? !params.has('desc') : columns.some((c) => c.name === name);
		change(changed(params, { sort: name, desc: descending ? '1' : undefined, offset: undefined }));
	};
	const offset = Number(params.get('offset') ?? 0);
	return (
		<>
			<h1 class="hidden">Runs</h1>
			{props.about.files ? (
				<CurvesPanel queries={shown} about={props.about} params={params} change={change} version={props.version} height={300} />
			) : (
				<p class="note">Curves need the workers' store: start the coordinator with --checkpoints.</p>
			)}
			<section class="panel" aria-label="Table of runs" aria-busy={loading}>
				<Filter params={params} change={change} table={data} />
				{chosen.length > 0 && (
					<p class="chosen">
						{chosen.length} of at most {most} chosen <Link to="compare" params={comparison(params, chosen)} class="button">Compare</Link>{' '}
						<button type="button" onClick={() => change(changed(params, { g: undefined }))}>
							Choose none
						</button>
					</p>
				)}
				{error && <p class="error" role="alert">{error.message}</p>}
				<div class="scroll">
					<table>
						<thead>
							<tr>
								<th class="choice">
									<span class="hidden">Curve</span>
								</th>
								<Heading name={grouping ? grouping.split(' ')[0] : 'name'} title={grouping ? grouping.replaceAll(' ', ', ') : 'Run'} params={params} sort={sort} narrow first />
								<Heading name={grouping ? 'runs' : 'state'} title={grouping ? 'Runs' : 'State'} params={params} sort={sort} narrow />
								{columns.map((c) => (
									<Heading key={c.name} {...c} params={params} sort={sort} />
								))}
							</tr>
						</thead>
						<tbody>
							{rows.map((row) => {
								const query = queryOf(row);
								const at = shown.indexOf(query);
								return (
									<tr key={row.query ?? row.name} class={row.state}>
										<td class="choice">
											<label title="show its curve">
												<input
													type="checkbox"
													checked={at >= 0}
													disabled={at < 0 && shown.length >= most}
													aria-label={`curve of ${row.query ?? row.name}`}
													onChange={(e) => choose(query, e.currentTarget.checked)}
												/>
												{at >= 0 && <Swatch index={at} />}
											</label>
										</td>
										<th scope="row" class="name">
											{row.query !== undefined ? (
												<Link to="" params={changed(params, { q: query, group: undefined, offset: undefined, g: undefined })}>
													{row.values.map((v) => v || '(none)').join(', ')}
												</Link>
											) : (
												<Link to={'run/' + row.name} title={row.name}><Cut text={row.name} /></Link>
											)}
										</th>
										<td>{row.query !== undefined ? <States of={row.states} /> : <Badge state={row.state} reason={row.reason} />}</td>
										{columns.map((c) => (
											<td key={c.name} class={c.narrow ? undefined : 'wide'}>
												{c.cell(row)}
											</td>
										))}
									</tr>
								);
							})}
						</tbody>
					</table>
				</div>
				{data && rows.length === 0 && <Empty all={data.all} about={props.about} />}
				{data && data.total > pageSize && (
					<p class="pages">
						<button type="button" disabled={offset === 0} onClick={() => change(changed(params, { offset: Math.max(0, offset - pageSize) || undefined }))}>
							Previous
						</button>
						{offset + 1}–{Math.min(offset + pageSize, data.total)} of {data.total.toLocaleString('en')}
						<button type="button" disabled={offset + pageSize >= data.total} onClick={() => change(changed(params, { offset: offset + pageSize }))}>
							Next
						</button>
					</p>
				)}
			</section>
		</>
	);
}

/** comparison returns the parameters of the page that compares groups. */
function comparison(params: URLSearchParams, queries: string[]): URLSearchParams {
	const next = new URLSearchParams();
	for (const name of ['metric', 'axis', 'statistic', 'smooth', 'log']) if (params.has(name)) next.set(name, params.get(name)!);
	for (const q of queries) next.append('g', q);
	return next;
}

function quoted(value: string): string {
	return /\s/.test(value) ? `"${value}"` : value;
}

/** withFilter returns the query of a group among the runs that a filter selects. */
function withFilter(filter: string, query: string): string {
	return filter && !query.startsWith('name=') ? `${filter} ${query}` : query;
}

function Empty(props: { all: number; about: About }) {
	if (props.all > 0) return <p class="empty">No run matches. Remove a part of the filter; every term must hold.</p>;
	return props.about.actions.includes('submit') ? (
		<p class="empty">
			There are no runs. <Link to="submit">Submit a sweep</Link>, and start a worker.
		</p>
	) : (
		<p class="empty">There are no runs here yet. A run appears once its first iteration is complete: go run ./learner --env Swimmer-v5</p>
	);
}

/** States counts runs by their states. */
function States(props: { of: Partial<Record<State, number>> }) {
	return (
		<span class="states">
			{Object.entries(props.of).map(([state, n]) => (
				<Badge key={state} state={state as State} count={n} />
			))}
		</span>
	);
}

function Heading(props: { name: string; title: string; help?: string; narrow?: boolean; first?: boolean; params: URLSearchParams; sort: (name: string) => void }) {
	const sorted = props.params.get('sort') === props.name;
	const direction = props.params.has('desc') ? 'descending' : 'ascending';
	return (
		<th scope="col" class={(props.narrow ? '' : 'wide ') + 'col-' + (props.first ? 'name' : props.name)} aria-sort={sorted ? direction : undefined}>
			<button type="button" title={props.help} onClick={() => props.sort(props.name)}>
				{props.title}
				<span aria-hidden="true">{sorted ? (direction === 'descending' ? ' ↓' : ' ↑') : ''}</span>
			</button>
		</th>
	);
}

/** Filter has the search, the states and the grouping. */
function Filter(props: { params: URLSearchParams; change: (params: URLSearchParams) => void; table?: Table }) {
	const { params, table } = props;
	const [text, setText] = useState(params.get('q') ?? '');
	useEffect(() => setText(params.get('q') ?? ''), [params.get('q')]);
	useEffect(() => {
		if (text === (params.get('q') ?? '')) return;
		const timer = setTimeout(() => props.change(changed(params, { q: text.trim(), offset: undefined, g: undefined })), 300);
		return () => clearTimeout(timer);
	}, [text]);
	const state = /(?:^|\s)state=(\w+)/.exec(text)?.[1];
	const filterState = (s: string) => {
		const rest = text.replace(/(?:^|\s)state=\w+/, '').trim();
		setText(s === state ? rest : `${rest} state=${s}`.trim());
	};
	const grouping = params.get('group') ?? '';
	const group = (value: string) => props.change(changed(params, { group: value, sort: undefined, desc: undefined, offset: undefined, g: undefined }));
	const choices = ['task algorithm estimator', ...(table?.names ?? [])];
	if (grouping && !choices.includes(grouping)) choices.push(grouping);
	return (
		<div class="controls">
			<label class="search">
				Filter
				<input
					type="search"
					value={text}
					placeholder="text  task=Hopper-v5  gamma!=0.99  best>300"
					onInput={(e) => setText(e.currentTarget.value)}
					spellcheck={false}
				/>
			</label>
			<label>
				Group by
				<select value={grouping} onChange={(e) => group(e.currentTarget.value)}>
					<option value="">nothing</option>
					{choices.map((name) => (
						<option key={name} value={name}>
							{name.replaceAll(' ', ', ')}
						</option>
					))}
				</select>
			</label>
			{grouping && (
				<label>
					and
					<select value="" onChange={(e) => group(`${grouping} ${e.currentTarget.value}`)}>
						<option value=""> </option>
						{table?.names.filter((name) => !grouping.split(' ').includes(name)).map((name) => <option key={name}>{name}</option>)}
					</select>
				</label>
			)}
			<span class="states">
				{Object.entries(table?.states ?? {}).map(([s, n]) => (
					<button type="button" key={s} class="plain" aria-pressed={s === state} onClick={() => filterState(s)}>
						<Badge state={s as State} count={n} />
					</button>
				))}
			</span>
		</div>
	);
}
