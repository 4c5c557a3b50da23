import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import './app.css';
import './play.css';
import { get, type Table } from './api';
import { Link, useRoute } from './route';
import { RunPage } from './run';

function Runs() {
	const [table, setTable] = useState<Table>();
	useEffect(() => {
		get<Table>('runs').then(setTable);
	}, []);
	return (
		<table>
			<tbody>
				{table?.runs?.map((run) => (
					<tr key={run.name}>
						<td>
							<Link to={'run/' + run.name}>{run.name}</Link>
						</td>
						<td>{run.state}</td>
						<td>{run.iteration}</td>
						<td>{run.return}</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

function App() {
	const route = useRoute();
	return <main>{route.path.startsWith('run/') ? <RunPage name={route.path.slice(4)} tab={route.params.get('tab') ?? 'curves'} /> : <Runs />}</main>;
}

render(<App />, document.getElementById('app')!);
