// Up to twelve groups of runs, compared.

import { useState } from 'preact/hooks';
import type { About } from './api';
import { CurvesPanel, labels } from './curves';
import { Swatch } from './chart';
import { go, Link } from './route';

export function ComparePage(props: { params: URLSearchParams; about: About; version: unknown }) {
	const queries = props.params.getAll('g');
	const [added, setAdded] = useState('');
	const names = labels(queries);
	const change = (groups: string[]) => {
		const next = new URLSearchParams(props.params);
		next.delete('g');
		for (const g of groups) next.append('g', g);
		go('compare', next, true);
	};
	return (
		<>
			<h1>Compare</h1>
			{queries.length > 0 ? (
				<CurvesPanel queries={queries} about={props.about} params={props.params} change={(next) => go('compare', next, true)} version={props.version} height={420} />
			) : (
				<p class="empty">
					No group is chosen: choose some in the <Link to="">table of runs</Link>, or add one below.
				</p>
			)}
			<section class="panel" aria-label="Groups">
				<ul class="groups">
					{queries.map((q, i) => (
						<li key={q}>
							<Swatch index={i} /> <Link to="" params={new URLSearchParams({ q })} title={q}>{names[i]}</Link>{' '}
							<button type="button" aria-label={`remove ${names[i]}`} onClick={() => change(queries.filter((other) => other !== q))}>
								✕
							</button>
						</li>
					))}
				</ul>
				{queries.length < 12 && (
					<form
						class="controls"
						onSubmit={(e) => {
							e.preventDefault();
							if (added.trim() && !queries.includes(added.trim())) change([...queries, added.trim()]);
							setAdded('');
						}}
					>
						<label class="search">
							Add the runs of
							<input value={added} onInput={(e) => setAdded(e.currentTarget.value)} placeholder="task=Hopper-v5 estimator=uapg" spellcheck={false} />
						</label>
						<button>Add</button>
					</form>
				)}
			</section>
		</>
	);
}
