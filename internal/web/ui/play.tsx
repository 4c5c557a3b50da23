// The tab "watch" of a run's page, loaded when it is first opened: policies at play, drawn by three.js.

import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, type Table } from './api';
import { type Command, type Frame, Link, type PolicyMessage, type SceneMessage, terminated } from './play/link';
import { Strips } from './play/strips';
import { View } from './play/view';
import { useTheme } from './theme';

export interface Params {
	run: string;
	checkpoint?: string;
}

/** mount shows a run's policy at play in an element, and returns what ends that. */
export function mount(element: HTMLElement, params: Params): () => void {
	render(<Play {...params} />, element);
	return () => render(null, element);
}

/** Settings are those of all views on the page. */
interface Settings {
	paused: boolean;
	speed: number;
	seed: number;
	episode: number;
	action: 'mean' | 'sampled';
	contacts: boolean;
	follow: boolean;
}

const speeds = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4];
const name = (speed: number) => (speed < 1 ? `1/${1 / speed}` : `${speed}`) + ' ×';

function Play(params: Params) {
	const [settings, set] = useState<Settings>({ paused: false, speed: 1, seed: 1, episode: 0, action: 'mean', contacts: false, follow: true });
	const [beside, setBeside] = useState(false);
	const [task, setTask] = useState('');
	const shown = useRef(new Set<Shown>()).current;
	const now = useRef(settings); // for what outlives a render
	now.current = settings;
	const tell = (c: Command) => shown.forEach((s) => s.link.send(c));
	const change = (part: Partial<Settings>, c?: Command) => {
		now.current = { ...now.current, ...part };
		set(now.current);
		shown.forEach((s) => s.adopt(now.current));
		if (c) tell(c);
	};
	const act = {
		pause: () => change({ paused: !now.current.paused }, { do: now.current.paused ? 'play' : 'pause' }),
		step: () => change({ paused: true }, { do: 'step' }),
		speed: (by: number) => {
			const speed = speeds[Math.min(Math.max(speeds.indexOf(now.current.speed) + by, 0), speeds.length - 1)];
			change({ speed }, { do: 'speed', speed });
		},
		begin: (episode: number, seed = now.current.seed) => change({ episode, seed }, { do: 'reset', seed, episode }),
		again: () => act.begin([...shown][0]?.episode ?? 0),
		next: () => act.begin(([...shown][0]?.episode ?? 0) + 1),
		action: () => {
			const action = now.current.action === 'mean' ? 'sampled' : 'mean';
			change({ action }, { do: 'action', action });
		},
		contacts: () => change({ contacts: !now.current.contacts }, { do: 'contacts', on: !now.current.contacts }),
		follow: () => change({ follow: !now.current.follow }),
		home: () => shown.forEach((s) => s.view?.home()),
	};
	useEffect(() => {
		const keys: Record<string, () => void> = {
			' ': act.pause, '.': act.step, '[': () => act.speed(-1), ']': () => act.speed(1), r: act.again, n: act.next,
			m: act.action, c: act.contacts, f: act.follow, h: act.home,
		};
		const pressed = (e: KeyboardEvent) => {
			const target = e.target as HTMLElement;
			if (e.ctrlKey || e.altKey || e.metaKey || target.closest('input, select, textarea') || (e.key === ' ' && target.closest('button, a, summary'))) return;
			const does = keys[e.key.toLowerCase()];
			if (!does) return;
			e.preventDefault();
			does();
		};
		const hidden = () => tell({ do: document.hidden || now.current.paused ? 'pause' : 'play' }); // nobody is looking
		addEventListener('keydown', pressed);
		document.addEventListener('visibilitychange', hidden);
		return () => {
			removeEventListener('keydown', pressed);
			document.removeEventListener('visibilitychange', hidden);
		};
	}, []);
	const views = [params, ...(beside ? [{ run: params.run, checkpoint: undefined }] : [])];
	return (
		<div class="play">
			<div class="play-controls" role="toolbar" aria-label="playing">
				<button onClick={act.pause} title="Space">{settings.paused ? 'Play' : 'Pause'}</button>
				<button onClick={act.step} title="a single step: .">Step</button>
				<label title="[ and ]">
					Speed{' '}
					<select value={settings.speed} onChange={(e) => change({ speed: +e.currentTarget.value }, { do: 'speed', speed: +e.currentTarget.value })}>
						{speeds.map((s) => <option value={s}>{name(s)}</option>)}
					</select>
				</label>
				<button onClick={act.again} title="the episode from its beginning: R">Restart</button>
				<button onClick={act.next} title="N">Next episode</button>
				<label title="episodes of a seed are those of learner evaluate --seed">
					Seed{' '}
					<input type="number" min="0" max={2 ** 53} step="1" value={settings.seed}
						onChange={(e) => { if (e.currentTarget.validity.valid && e.currentTarget.value) act.begin(0, +e.currentTarget.value); }} />
				</label>
				<label title="draw actions from the policy's distribution, as in training: M">
					<input type="checkbox" checked={settings.action === 'sampled'} onChange={act.action} /> Sampled actions
				</label>
				<label title="C"><input type="checkbox" checked={settings.contacts} onChange={act.contacts} /> Contact forces</label>
				<label title="F"><input type="checkbox" checked={settings.follow} onChange={act.follow} /> Follow</label>
				<button onClick={act.home} title="the camera to where it began: H">Camera</button>
				<button onClick={() => setBeside(!beside)} aria-pressed={beside} title="two policies side by side">Compare</button>
			</div>
			<div class="play-views">
				{views.map((v, i) => <OneView key={i} {...v} task={task} other={i > 0} settings={now} shown={shown} onTask={setTask} together={act.again} />)}
			</div>
			<p class="play-help">
				Drag the robot to push it, beside it to turn the camera; the wheel zooms. Below the rewards is a row for each actuator, blue towards its lowest control and
				orange towards its highest. The keys are in the buttons' tips.
			</p>
		</div>
	);
}

/** Shown is what there is of a view while it is on the page. */
class Shown {
	view?: View;
	strips?: Strips;
	about?: SceneMessage;
	episode = 0;
	link!: Link;

	adopt(s: Settings) {
		if (!this.view) return;
		this.view.speed = s.speed;
		this.view.paused = s.paused;
		this.view.follow = s.follow;
	}
}

interface ViewProps extends Params {
	task: string;
	other: boolean; // the second one, which may be of another run
	settings: { current: Settings };
	shown: Set<Shown>;
	onTask(task: string): void;
	together(): void; // has all views begin their episode now
}

function OneView(props: ViewProps) {
	const [run, setRun] = useState(props.run);
	const [runs, setRuns] = useState<string[]>([]);
	const [which, setWhich] = useState(props.checkpoint ?? 'newest');
	const [policy, setPolicy] = useState<PolicyMessage>();
	const [note, setNote] = useState('Connecting');
	const canvas = useRef<HTMLCanvasElement>(null);
	const strips = useRef<HTMLCanvasElement>(null);
	const figures = useRef<HTMLDivElement>(null);
	const section = useRef<HTMLElement>(null);
	const asked = useRef(which);
	const self = useRef<Shown | undefined>(undefined);

	useEffect(() => {
		if (!props.other || !props.task) return;
		get<Table>('runs', { q: 'task=' + props.task, limit: '200' }).then((t) => setRuns((t.runs ?? []).map((r) => r.name)), () => {});
	}, [props.task]);

	useEffect(() => {
		const s = new Shown();
		self.current = s;
		s.episode = [...props.shown][0]?.episode ?? 0; // the one that the policy beside it plays
		try {
			s.view = new View(canvas.current!);
		} catch {
			setNote('WebGL is not available in this browser: switch hardware acceleration on, or open this page in another one.');
			return;
		}
		s.view.onPush = (push) => s.link.send({ do: 'push', ...push });
		s.view.onLost = () => setNote('The browser has taken the graphics away: load this page anew.');
		s.adopt(props.settings.current);
		s.link = new Link({
			begin: () => {
				const { seed, action, speed, contacts, paused } = props.settings.current;
				const commands: Command[] = [{ do: 'speed', speed }, { do: 'contacts', on: contacts }];
				if (paused || document.hidden) commands.push({ do: 'pause' });
				return { query: { run, checkpoint: asked.current, seed: `${seed}`, episode: `${s.episode}`, action }, commands };
			},
			message: (m) => {
				switch (m.type) {
					case 'scene':
						if (props.other && !s.about) props.together();
						s.about = m;
						s.view!.show(m);
						s.strips = new Strips(strips.current!, m);
						props.onTask(m.task);
						break;
					case 'policy':
						setPolicy(m);
						setWhich(m.checkpoint);
						setNote('');
						break;
					default:
						setNote(m.text);
				}
			},
			frame: (f) => {
				s.episode = f.episode;
				s.view!.add(f);
				s.strips!.add(f);
				if (figures.current) figures.current.textContent = describe(f, s.about!);
				section.current!.dataset.steps = `${f.steps}`;
			},
			lost: (again) => setNote(`The connection is lost; trying again in ${again} s.`),
		});
		props.shown.add(s);
		return () => {
			props.shown.delete(s);
			s.link.close();
			s.view?.dispose();
		};
	}, [run]);

	const { dark } = useTheme();
	useEffect(() => self.current?.strips?.draw(), [dark]);

	const choose = (checkpoint: string) => {
		asked.current = checkpoint;
		setWhich(checkpoint);
		self.current!.link.send({ do: 'checkpoint', checkpoint });
	};
	return (
		<section ref={section} class="play-view" aria-label={(props.other ? 'the other policy, of ' : 'policy of ') + run}>
			<div class="play-head">
				{props.other && runs.length > 1 && (
					<select aria-label="run" value={run} onChange={(e) => { asked.current = 'newest'; setRun(e.currentTarget.value); }}>
						{runs.map((r) => <option>{r}</option>)}
					</select>
				)}
				{policy?.checkpoints && (
					<select aria-label="checkpoint" value={which} onChange={(e) => choose(e.currentTarget.value)}>
						<option value="newest">newest</option>
						{[...policy.checkpoints].reverse().map((c) => <option value={c}>{c === 'best' ? 'best' : 'iteration ' + c}</option>)}
					</select>
				)}
				{policy && <span>policy of iteration {policy.iteration ?? 0}</span>}
			</div>
			<div class="play-stage">
				<canvas ref={canvas} role="img" aria-label="the robot" key={run} />
				<div class="play-note" role="status" hidden={!note}>{note}</div>
			</div>
			<div class="play-figures" ref={figures} />
			<canvas class="play-strips" ref={strips} role="img" aria-label="rewards and actions of the last steps"
				onPointerMove={(e) => { e.currentTarget.title = self.current?.strips?.describe(e.offsetY) ?? ''; }} />
		</section>
	);
}

function describe(f: Frame, about: SceneMessage): string {
	const end = !f.end ? '' : f.end === terminated ? ' · ended: the task says so' : ' · ended at the time limit';
	return `episode ${f.episode} · step ${f.steps} of ${about.timeLimit} · ${f.time.toFixed(2)} s · return ${f.sum.toFixed(2)}${end}`;
}
