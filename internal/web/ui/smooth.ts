/** smooth returns the exponential moving average of what is there, corrected for its start; weight 0 leaves the values as they are. */
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
	if (weight <= 0) return values;
	let sum = 0;
	let mass = 0;
	return values.map((v) => {
		if (v === null) return null;
		sum = weight * sum + (1 - weight) * v;
		mass = weight * mass + (1 - weight);
		return sum / mass;
	});
}
