// What the user may do: submit a sweep; cancel, retry and remove runs; log in.

import { useEffect, useRef, useState } from 'preact/hooks';
import { post, type About, type Run } from './api';
import { go } from './route';

interface Done {
	message: string;
}

interface Question {
	action: string;
	name: string;
	yes: string; // on the button that does it
	question: string;
}

/** confirmed asks before something is done that cannot be undone. */
const questions: Record<string, (run: Run) => Question | null> = {
	cancel: (run) => (over(run) ? null : { action: 'cancel', name: run.name, yes: 'Cancel the run', question: `Cancel ${run.name}? It can be retried, and then goes on from its last checkpoint.` }),
	retry: (run) => (run.state === 'failed' || run.state === 'cancelled' ? { action: 'retry', name: run.name, yes: 'Queue the run', question: `Queue ${run.name} again?` } : null),
	remove: (run) =>
		run.experiment ? { action: 'remove', name: run.experiment, yes: 'Remove the experiment', question: `Remove the experiment ${run.experiment} with all of its runs? All must have ended. Their files stay in the store.` } : null,
};

const over = (run: Run) => ['done', 'failed', 'cancelled'].includes(run.state);

/** Actions are those that apply to a run. */
export function Actions(props: { run: Run; about: About }) {
	const dialog = useRef<HTMLDialogElement>(null);
	const [asked, setAsked] = useState<Question | null>(null);
	const [said, setSaid] = useState<{ text: string; bad: boolean }>();
	useEffect(() => {
		if (asked) dialog.current?.showModal();
	}, [asked]);
	const act = async () => {
		dialog.current?.close();
		try {
			const done = await post<Done>('action', { action: asked!.action, name: asked!.name });
			setSaid({ text: done.message, bad: false });
			if (asked!.action === 'remove') go('');
		} catch (error) {
			setSaid({ text: (error as Error).message, bad: true });
		}
	};
	return (
		<div class="actions">
			{Object.entries(questions).map(([action, ask]) => {
				const question = props.about.actions.includes(action) ? ask(props.run) : null;
				return (
					question && (
						<button type="button" key={action} onClick={() => setAsked(question)}>
							{action === 'remove' ? 'Remove experiment' : action[0].toUpperCase() + action.slice(1)}
						</button>
					)
				);
			})}
			<span role="status" class={said?.bad ? 'error' : ''}>
				{said?.text}
			</span>
			<dialog ref={dialog} onClose={() => setAsked(null)} aria-labelledby="question">
				<p id="question">{asked?.question}</p>
				<p class="controls">
					<button type="button" class="primary" onClick={act}>
						{asked?.yes}
					</button>
					<button type="button" onClick={() => dialog.current?.close()}>
						Leave it
					</button>
				</p>
			</dialog>
		</div>
	);
}

const example = `name: swimmer
tasks: Swimmer-v5
estimators: [mc, dbqpg, uapg]
seeds: 1-3
overrides:
  iterations: 300
`;

export function SubmitPage() {
	const [sweep, setSweep] = useState(example);
	const [said, setSaid] = useState<{ text: string; bad: boolean }>();
	const submit = async (check: boolean) => {
		try {
			const done = await post<Done>('action', { action: check ? 'check' : 'submit', sweep });
			setSaid({ text: done.message, bad: false });
			if (!check) go('');
		} catch (error) {
			setSaid({ text: (error as Error).message, bad: true });
		}
	};
	return (
		<>
			<h1>Submit a sweep</h1>
			<form
				class="panel"
				onSubmit={(e) => {
					e.preventDefault();
					submit(false);
				}}
			>
				<label class="tall">
					A sweep, as in a file for coordinator submit: a run for each combination of tasks, algorithms, estimators, seeds and values of overrides
					<textarea rows={16} value={sweep} spellcheck={false} onInput={(e) => setSweep(e.currentTarget.value)} />
				</label>
				<p class="controls">
					<button type="button" onClick={() => submit(true)}>
						Check
					</button>
					<button class="primary">Submit</button>
				</p>
				<p role="status" class={said?.bad ? 'error' : 'said'}>
					{said?.text}
				</p>
			</form>
		</>
	);
}

export function LoginPage(props: { done: () => void; why?: string }) {
	const [token, setToken] = useState('');
	const [error, setError] = useState(props.why);
	return (
		<>
			<h1>Log in</h1>
			<form
				class="panel login"
				onSubmit={(e) => {
					e.preventDefault();
					post('login', { token: token.trim() }).then(props.done, (failed) => setError(failed.message));
				}}
			>
				<p>
					Whoever runs the coordinator makes a token by <code>coordinator credentials token NAME --role observer --file tokens</code>, or with{' '}
					<code>--role operator</code> for one who may also act.
				</p>
				<label>
					Token
					<input type="password" autocomplete="off" value={token} onInput={(e) => setToken(e.currentTarget.value)} />
				</label>
				<p class="controls">
					<button class="primary">Log in</button>
				</p>
				{error && <p class="error" role="alert">{error}</p>}
			</form>
		</>
	);
}
