// A view draws a model as frames come, lets the camera follow the robot, and the mouse push it.

import * as THREE from '../three';
import type { Frame, SceneMessage } from './link';
import { Model } from './model';

const maxArrows = 64;
const kept = 16; // frames

/** Push is a force on a point of a body. */
export interface Push {
	body: number;
	point: number[];
	force: number[];
}

export class View {
	/** speed is how fast the simulation goes, in its seconds a second; paused says that it does not. */
	speed = 1;
	paused = false;
	follow = true;
	/** onPush is called with what the mouse does, up to 30 times a second. */
	onPush = (_: Push) => {};
	/** onLost is called if the browser takes the graphics away. */
	onLost = () => {};

	private readonly renderer: THREE.WebGLRenderer;
	private readonly scene = new THREE.Scene();
	private readonly camera = new THREE.PerspectiveCamera(45, 1, 0.01, 400);
	private readonly controls: THREE.OrbitControls;
	private readonly sun = new THREE.DirectionalLight(0xffffff, 1.6);
	private readonly lamp = new THREE.DirectionalLight(0xffffff, 1.1); // beside the camera, as MuJoCo's headlight
	private readonly arrows: THREE.InstancedMesh;
	private readonly rope: THREE.Mesh;
	private readonly sizes: ResizeObserver;
	private readonly theme = matchMedia('(prefers-color-scheme: dark)');
	private readonly recolor = () => this.color();
	private readonly themes = new MutationObserver(this.recolor); // the page's own switch

	private model?: Model;
	private about?: SceneMessage;
	private tracked = 1; // body
	private size = 1; // of the robot, about, as far as its camera tells, in m
	private last = new THREE.Vector3(); // where it was
	private sunward = new THREE.Vector3(0, 0, 1);

	private frames: Frame[] = [];
	private clock = 0; // time shown, in s of the simulation
	private drawn = 0; // when the last picture was drawn, in ms
	private dirty = true;

	private grabbed?: { body: number; point: THREE.Vector3 };
	private pointer = new THREE.Vector2();
	private pushed = 0; // when the last push was sent, in ms

	/** The constructor throws if there is no WebGL. */
	constructor(private readonly canvas: HTMLCanvasElement) {
		const context = canvas.getContext('webgl2', { antialias: true, alpha: false });
		if (!context) throw new Error('no WebGL');
		this.renderer = new THREE.WebGLRenderer({ canvas, context });
		this.renderer.shadowMap.enabled = true;
		this.renderer.shadowMap.type = THREE.PCFShadowMap;
		this.camera.up.set(0, 0, 1);
		this.controls = new THREE.OrbitControls(this.camera, canvas);
		this.controls.maxPolarAngle = 0.52 * Math.PI;
		this.controls.addEventListener('change', () => (this.dirty = true));
		this.sun.castShadow = true;
		this.sun.shadow.mapSize.set(2048, 2048);
		this.sun.shadow.bias = -0.0005;
		this.sun.shadow.normalBias = 0.01;
		const cylinder = new THREE.CylinderGeometry(1, 1, 1, 12).translate(0, 0.5, 0);
		this.arrows = new THREE.InstancedMesh(cylinder, new THREE.MeshBasicMaterial({ color: 0xe69f00 }), maxArrows);
		this.arrows.frustumCulled = false;
		this.arrows.count = 0;
		this.rope = new THREE.Mesh(cylinder, new THREE.MeshBasicMaterial({ color: 0xd55e00 }));
		this.rope.visible = false;
		this.scene.add(this.sun, this.sun.target, this.lamp, this.lamp.target, new THREE.AmbientLight(0xffffff, 0.9), this.arrows, this.rope);
		this.color();
		this.theme.addEventListener('change', this.recolor);
		this.themes.observe(document.documentElement, { attributes: true });
		this.sizes = new ResizeObserver(() => this.resize());
		this.sizes.observe(canvas);
		this.listen();
		this.renderer.setAnimationLoop((now: number) => this.draw(now));
	}

	/** show begins with a scene. */
	show(about: SceneMessage) {
		this.about = about;
		this.model?.root.removeFromParent();
		this.model?.dispose();
		this.model = new Model(about.scene, this.renderer.capabilities.getMaxAnisotropy());
		this.scene.add(this.model.root);
		this.frames = [];
		const sun = about.scene.lights.find((l) => l.directional);
		if (sun) this.sunward.set(...sun.direction).normalize().negate();
		if (this.sunward.z > 0.99) this.sunward.add(new THREE.Vector3(0.2, -0.35, 0)).normalize(); // shadows show heights
		this.home();
	}

	/** home puts the camera to where the model has it. */
	home() {
		if (!this.about) return;
		const { cameras, extent, center } = this.about.scene;
		const camera = cameras.find((c) => c.name === 'track') ?? cameras[0];
		this.tracked = camera?.body || 1;
		const offset = camera ? new THREE.Vector3(...camera.offset) : new THREE.Vector3(0, -1, 0.8).multiplyScalar(extent);
		offset.z += 0.15 * offset.length();
		offset.multiplyScalar(0.85);
		this.camera.fov = camera?.fieldOfView ?? 45;
		this.size = 0.4 * offset.length();
		this.last.set(...center);
		this.controls.target.copy(this.last);
		this.camera.position.copy(this.last).add(offset);
		this.resize();
		this.color();
		if (this.frames.length > 0) this.place(1); // the robot may be elsewhere
	}

	/** add takes the next frame. */
	add(f: Frame) {
		const before = this.frames.at(-1);
		if (!before || f.steps === 0 || f.episode !== before.episode || f.time < before.time) {
			this.frames = [];
			this.clock = f.time;
		}
		this.frames.push(f);
		if (this.frames.length > kept) this.frames.shift();
		this.dirty = true;
	}

	/** advance moves the clock, which stays about a frame behind the newest one, so that there is always one ahead to move towards. */
	private advance(seconds: number) {
		const newest = this.frames.at(-1)!;
		const interval = newest.time - (this.frames.at(-2) ?? newest).time;
		const wanted = this.paused || newest.end ? newest.time : newest.time - interval;
		const before = this.clock;
		this.clock += this.paused ? 0 : seconds * this.speed;
		const late = wanted - this.clock;
		this.clock += this.paused || Math.abs(late) > 5 * interval + 0.1 ? late : 0.1 * late;
		this.clock = Math.min(Math.max(this.clock, before), newest.time);
		if (this.clock !== before) this.dirty = true;
	}

	/** pose shows the time on the clock, and returns the frame that it is in. */
	private pose(): Frame {
		const i = Math.max(
			this.frames.findLastIndex((f) => f.time <= this.clock),
			0,
		);
		const from = this.frames[i];
		const to = this.frames[i + 1] ?? from;
		this.model!.pose(from.bodies, to.bodies, to === from ? 0 : (this.clock - from.time) / (to.time - from.time));
		return from;
	}

	/** place moves the camera, the light and the floor along with the robot; share: how much of the way up or down. */
	private place(share: number) {
		const at = this.model!.bodies[this.tracked].position.clone();
		at.z *= 0.75; // robots have legs
		const way = at.clone().sub(this.last);
		way.z *= share;
		this.last.add(way);
		if (this.follow) {
			this.controls.target.add(way);
			this.camera.position.add(way);
		}
		const size = this.size;
		this.sun.target.position.copy(at);
		this.sun.position.copy(at).addScaledVector(this.sunward, 4 * size);
		const shadow = this.sun.shadow.camera;
		shadow.left = shadow.bottom = -2.5 * size;
		shadow.right = shadow.top = 2.5 * size;
		shadow.near = 0.1;
		shadow.far = 10 * size;
		shadow.updateProjectionMatrix();
		this.model!.follow(this.controls.target);
	}

	private draw(now: number) {
		const seconds = Math.min((now - this.drawn) / 1000, 0.25);
		this.drawn = now;
		if (!this.model || this.frames.length === 0) return;
		this.advance(seconds);
		this.controls.update();
		if (!this.dirty && !this.grabbed) return;
		this.dirty = false;
		const f = this.pose();
		this.place(Math.min(1, 4 * seconds));
		this.point(f);
		this.pull(now);
		this.lamp.position.copy(this.camera.position);
		this.lamp.target.position.copy(this.controls.target);
		this.renderer.render(this.scene, this.camera);
	}

	/** point draws the contacts' forces: the robot's weight is as long as a third of it. */
	private point(f: Frame) {
		const n = Math.min(f.contacts.length / 6, maxArrows);
		const place = new THREE.Vector3();
		const force = new THREE.Vector3();
		for (let i = 0; i < n; i++) {
			place.fromArray(f.contacts, 6 * i);
			force.fromArray(f.contacts, 6 * i + 3).multiplyScalar((0.3 * this.size) / (9.81 * this.about!.scene.mass));
			this.arrows.setMatrixAt(i, span(place, force, 0.012 * this.size));
		}
		this.arrows.count = n;
		this.arrows.instanceMatrix.needsUpdate = true;
	}

	/** pull pushes what the mouse has grabbed towards it, in the plane that faces the camera. */
	private pull(now: number) {
		this.rope.visible = !!this.grabbed;
		if (!this.grabbed) return;
		const { body, point } = this.grabbed;
		const at = this.model!.bodies[body].localToWorld(point.clone());
		const facing = new THREE.Plane().setFromNormalAndCoplanarPoint(this.camera.getWorldDirection(new THREE.Vector3()), at);
		const to = this.ray().ray.intersectPlane(facing, new THREE.Vector3());
		if (!to) return;
		const way = to.sub(at);
		this.rope.matrixAutoUpdate = false;
		this.rope.matrix.copy(span(at, way, 0.008 * this.size));
		if (now - this.pushed < 1000 / 30) return;
		this.pushed = now;
		this.onPush({ body, point: point.toArray(), force: way.multiplyScalar((4 * 9.81 * this.about!.scene.mass) / this.size).toArray() });
	}

	private ray(): THREE.Raycaster {
		const ray = new THREE.Raycaster();
		ray.setFromCamera(this.pointer, this.camera);
		return ray;
	}

	/** listen lets the mouse, or a finger, grab bodies; beside them it moves the camera. */
	private listen() {
		const aim = (e: PointerEvent) => {
			const box = this.canvas.getBoundingClientRect();
			this.pointer.set((2 * (e.clientX - box.left)) / box.width - 1, 1 - (2 * (e.clientY - box.top)) / box.height);
		};
		const release = () => {
			this.grabbed = undefined;
			this.canvas.classList.remove('pulled');
			this.controls.enabled = true;
			this.dirty = true;
		};
		this.canvas.addEventListener('pointerdown', (e) => {
			if (!this.model || e.button !== 0) return;
			aim(e);
			const hit = this.ray().intersectObject(this.model.root)[0];
			const body = hit?.object.userData.body as number | undefined;
			if (!body) return; // the world is body 0
			this.grabbed = { body, point: this.model.bodies[body].worldToLocal(hit.point.clone()) };
			this.canvas.classList.add('pulled');
			this.controls.enabled = false;
			this.canvas.setPointerCapture(e.pointerId);
		}, { capture: true }); // before the camera's
		this.canvas.addEventListener('pointermove', aim);
		this.canvas.addEventListener('pointerup', release);
		this.canvas.addEventListener('pointercancel', release);
		this.canvas.addEventListener('webglcontextlost', () => this.onLost());
	}

	private color() {
		const text = new THREE.Color(getComputedStyle(this.canvas).color);
		const sky = new THREE.Color(text.g > 0.2 ? 0x14181d : 0xdfe7ef); // light text is on dark pages
		this.scene.background = sky;
		this.scene.fog = new THREE.Fog(sky, 11 * this.size, 57 * this.size);
		this.model?.reflect(sky);
		this.dirty = true;
	}

	private resize() {
		const { clientWidth: width, clientHeight: height } = this.canvas;
		if (!width || !height) return;
		this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
		this.renderer.setSize(width, height, false);
		this.camera.aspect = width / height;
		this.camera.updateProjectionMatrix();
		this.dirty = true;
	}

	dispose() {
		this.renderer.setAnimationLoop(null);
		this.sizes.disconnect();
		this.themes.disconnect();
		this.theme.removeEventListener('change', this.recolor);
		this.controls.dispose();
		this.model?.dispose();
		this.arrows.dispose();
		this.renderer.dispose();
		this.renderer.forceContextLoss();
	}
}

/** span returns what makes a unit cylinder along y one of that radius from a place along a way. */
function span(from: THREE.Vector3, way: THREE.Vector3, radius: number): THREE.Matrix4 {
	const length = way.length();
	const turn = new THREE.Quaternion().setFromUnitVectors(new THREE.Vector3(0, 1, 0), length > 0 ? way.clone().divideScalar(length) : new THREE.Vector3(0, 1, 0));
	return new THREE.Matrix4().compose(from, turn, new THREE.Vector3(radius, length, radius));
}
