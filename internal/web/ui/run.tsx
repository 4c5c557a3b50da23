import { useEffect, useRef } from 'preact/hooks';
import { Link } from './route';

/** Watch is the tab in which the policy plays; its code is loaded when it is first opened. */
function Watch(props: { run: string }) {
	const element = useRef<HTMLDivElement>(null);
	useEffect(() => {
		let end = () => {};
		let ended = false;
		import('./play').then((play) => {
			if (!ended) end = play.mount(element.current!, { run: props.run });
		});
		return () => {
			ended = true;
			end();
		};
	}, [props.run]);
	return <div class="watch" ref={element} />;
}

export function RunPage(props: { name: string; tab: string }) {
	return (
		<>
			<h1>{props.name}</h1>
			<nav>
				{['curves', 'watch'].map((tab) => (
					<Link to={'run/' + props.name} params={new URLSearchParams({ tab })} current={tab === props.tab}>
						{tab}
					</Link>
				))}
			</nav>
			{props.tab === 'watch' && <Watch run={props.name} />}
		</>
	);
}
