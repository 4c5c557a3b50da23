// The model's geoms as objects of three.js.

import * as THREE from '../three';
import type { Geom, Scene } from './link';

/** far is half the side of what is drawn of a plane that goes on beyond the horizon, in m. */
const far = 150;

/** Model is the robot and its world: a group for each body, which frames move. */
export class Model {
	readonly root = new THREE.Group();
	readonly bodies: THREE.Group[];
	/** floors are planes without an end: they follow the camera in steps of their texture. */
	private readonly floors: { mesh: THREE.Mesh; period: [number, number]; at: THREE.Vector3 }[] = [];

	private readonly planes: { material: THREE.MeshPhongMaterial; reflectance: number }[] = [];

	constructor(
		private readonly scene: Scene,
		private readonly anisotropy: number,
	) {
		this.bodies = scene.bodies.map(() => new THREE.Group());
		this.root.add(...this.bodies);
		for (const g of scene.geoms) {
			if (g.color[3] > 0) this.bodies[g.body].add(this.mesh(g));
		}
	}

	private mesh(g: Geom): THREE.Mesh {
		const [red, green, blue, opacity] = g.color;
		const color = new THREE.Color().setRGB(red, green, blue, THREE.SRGBColorSpace);
		const material = new THREE.MeshPhongMaterial({
			color,
			emissive: color.clone().multiplyScalar(g.emission),
			specular: new THREE.Color().setScalar(0.25 * g.specular),
			shininess: 128 * g.shininess,
			transparent: opacity < 1,
			opacity,
			flatShading: g.type === 'mesh',
		});
		const mesh = new THREE.Mesh(this.geometry(g), material);
		mesh.position.set(...g.position);
		mesh.quaternion.set(g.quaternion[1], g.quaternion[2], g.quaternion[3], g.quaternion[0]);
		mesh.userData = { body: g.body };
		mesh.castShadow = g.type !== 'plane' && opacity === 1;
		mesh.receiveShadow = true;
		if (g.type === 'plane') this.plane(g, mesh, material);
		return mesh;
	}

	private geometry(g: Geom): THREE.BufferGeometry {
		const [a, b, c] = g.size;
		switch (g.type) {
			case 'plane': {
				const side = (half: number) => 2 * (half > 0 && half < 10 ? half : far);
				return new THREE.PlaneGeometry(side(a), side(b));
			}
			case 'sphere':
				return new THREE.SphereGeometry(a, 48, 24);
			case 'capsule':
				return new THREE.CapsuleGeometry(a, 2 * b, 16, 32).rotateX(Math.PI / 2); // three's are along y
			case 'ellipsoid':
				return new THREE.SphereGeometry(1, 48, 24).scale(a, b, c);
			case 'cylinder':
				return new THREE.CylinderGeometry(a, a, 2 * b, 48).rotateX(Math.PI / 2);
			case 'box':
				return new THREE.BoxGeometry(2 * a, 2 * b, 2 * c);
			case 'mesh': {
				const { vertices, faces } = this.scene.meshes[g.mesh];
				const geometry = new THREE.BufferGeometry();
				geometry.setAttribute('position', new THREE.Float32BufferAttribute(vertices, 3));
				geometry.setIndex(faces);
				geometry.computeVertexNormals();
				return geometry;
			}
		}
	}

	/** plane gives a plane its texture, and the freedom to follow the camera if it has no end. */
	private plane(g: Geom, mesh: THREE.Mesh, material: THREE.MeshPhongMaterial) {
		this.planes.push({ material, reflectance: g.reflectance });
		const sides = [0, 1].map((i) => 2 * (g.size[i] > 0 && g.size[i] < 10 ? g.size[i] : far));
		const perMeter = [0, 1].map((i) => (g.uniform || g.size[i] === 0 ? g.repeat[i] : g.repeat[i] / (2 * g.size[i])));
		if (sides[0] === 2 * far || sides[1] === 2 * far) {
			const period: [number, number] = g.texture >= 0 ? [1 / perMeter[0], 1 / perMeter[1]] : [1, 1];
			this.floors.push({ mesh, period, at: mesh.position.clone() });
		}
		if (g.texture < 0) return;
		const bytes = Uint8Array.from(atob(this.scene.textures[g.texture].png), (c) => c.charCodeAt(0));
		createImageBitmap(new Blob([bytes], { type: 'image/png' })).then((image) => {
			const texture = new THREE.Texture(image);
			texture.colorSpace = THREE.SRGBColorSpace;
			texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
			texture.repeat.set(perMeter[0] * sides[0], perMeter[1] * sides[1]);
			texture.anisotropy = this.anisotropy;
			texture.needsUpdate = true;
			material.map = texture;
			material.needsUpdate = true;
		});
	}

	/** follow moves what has no end under a place in the world. */
	follow(place: THREE.Vector3) {
		for (const { mesh, period, at } of this.floors) {
			const local = mesh.parent!.worldToLocal(place.clone()).sub(at).applyQuaternion(mesh.quaternion.clone().invert());
			local.set(period[0] * Math.round(local.x / period[0]), period[1] * Math.round(local.y / period[1]), 0);
			mesh.position.copy(at).add(local.applyQuaternion(mesh.quaternion));
		}
	}

	/** reflect adds to the planes what they reflect, which is mostly sky. */
	reflect(sky: THREE.Color) {
		for (const { material, reflectance } of this.planes) material.emissive.copy(sky).multiplyScalar(0.3 * reflectance);
	}

	/** pose sets the bodies' poses between two frames' (share 0: the first, 1: the second). */
	pose(from: Float32Array, to: Float32Array, share: number) {
		const end = new THREE.Vector3();
		const turned = new THREE.Quaternion();
		for (let b = 1; b < this.bodies.length; b++) {
			const { position, quaternion } = this.bodies[b];
			const i = 7 * (b - 1);
			position.fromArray(from, i).lerp(end.fromArray(to, i), share);
			quaternion.set(from[i + 4], from[i + 5], from[i + 6], from[i + 3]);
			quaternion.slerp(turned.set(to[i + 4], to[i + 5], to[i + 6], to[i + 3]), share);
		}
	}

	dispose() {
		this.root.traverse((o) => {
			if (!(o instanceof THREE.Mesh)) return;
			const material = o.material as THREE.MeshPhongMaterial;
			o.geometry.dispose();
			material.map?.dispose();
			material.dispose();
		});
	}
}
