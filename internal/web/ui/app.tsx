import { render } from 'preact';
import { useCallback, useEffect, useState } from 'preact/hooks';
import './app.css';
import './play.css';
import { LoginPage, SubmitPage } from './actions';
import { Failure, get, post, usePolling, type About, type Table } from './api';
import { ComparePage } from './compare';
import { go, Link, useRoute } from './route';
import { RunPage } from './run';
import { RunsPage } from './runs';
import { nextTheme, useTheme } from './theme';

const none = new URLSearchParams();

function App() {
	const route = useRoute();
	const [about, setAbout] = useState<About>();
	const [failure, setFailure] = useState<Failure>();
	const [version, setVersion] = useState('');
	const [lost, setLost] = useState(false);
	const { theme } = useTheme();
	const load = useCallback(() => {
		setFailure(undefined);
		get<About>('about', none).then(setAbout, setFailure);
	}, []);
	useEffect(load, []);
	useEffect(() => {
		if (!failure || failure.status !== 0) return;
		const timer = setTimeout(load, 3000); // until the program runs again
		return () => clearTimeout(timer);
	}, [failure]);
	const inRun = route.path.startsWith('run/');
	usePolling<Table>(about && !inRun ? 'runs' : null, 'runs', () => ({ limit: '0' }), (table) => setVersion(table.version), setLost);
	useEffect(() => {
		if (about?.one && route.path === '' && route.params.size === 0) {
			get<Table>('runs', none).then((table) => table.runs?.length === 1 && go('run/' + table.runs[0].name, none, true));
		}
		document.title = (route.path.replace(/^run\//, '') || 'runs') + ' · dbqpg';
	}, [about, route, version]);

	let page;
	if (failure?.status === 401) page = <LoginPage done={load} />;
	else if (failure) page = <p class="error" role="alert">{failure.message}</p>;
	else if (!about) page = <p class="empty">…</p>;
	else if (inRun) page = <RunPage key={route.path} name={route.path.slice(4)} params={route.params} about={about} lost={setLost} />;
	else if (route.path === 'compare') page = <ComparePage params={route.params} about={about} version={version} />;
	else if (route.path === 'submit') page = <SubmitPage />;
	else if (route.path === '') page = <RunsPage params={route.params} about={about} version={version} />;
	else page = <p class="empty">There is no such page. <Link to="">All runs</Link></p>;

	return (
		<>
			<a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById('main')?.focus())}>
				Skip to the content
			</a>
			<header class="top">
				<Link to="" class="brand">dbqpg</Link>
				<nav aria-label="Pages">
					<Link to="" current={route.path === ''}>Runs</Link>
					<Link to="compare" current={route.path === 'compare'}>Compare</Link>
					{about?.actions.includes('submit') && <Link to="submit" current={route.path === 'submit'}>Submit</Link>}
				</nav>
				<span class="lost" role="status">{lost ? 'no connection; trying again' : ''}</span>
				{about?.user && <span class="user">{about.user}</span>}
				{about?.user && about.login && (
					<button type="button" onClick={() => post('login', { token: '' }).then(load)}>Log out</button>
				)}
				<button type="button" onClick={nextTheme} aria-label={`theme: ${theme}`} title={`theme: ${theme}`}>
					{{ system: '◐', light: '☀', dark: '☾' }[theme]}
				</button>
			</header>
			<main id="main" tabIndex={-1}>
				{page}
			</main>
		</>
	);
}

render(<App />, document.getElementById('app')!);
