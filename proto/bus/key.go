package bus

import (
	"fmt"

	"github.com/nats-io/nkeys"
)

// Key is an nkey: an Ed25519 key pair that authenticates its owner to a server without ever sending the secret part,
// the seed. Printing a Key shows only its public part.
type Key struct {
	pair   nkeys.KeyPair
	public string
}

// NewKey makes a user's key.
func NewKey() (Key, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Key{}, fmt.Errorf("make an nkey: %w", err)
	}
	return newKey(pair)
}

// ParseKey reads a key from its seed, the line "SU..." that Seed returns. The error reveals nothing of the seed.
func ParseKey(seed []byte) (Key, error) {
	pair, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return Key{}, fmt.Errorf("not the seed of a user's nkey, a line that begins with SU: %w", err)
	}
	return newKey(pair)
}

func newKey(pair nkeys.KeyPair) (Key, error) {
	public, err := pair.PublicKey()
	if err != nil {
		return Key{}, fmt.Errorf("an nkey's public part: %w", err)
	}
	return Key{pair, public}, nil
}

// CheckPublicKey returns an error unless public is the public part of a user's key.
func CheckPublicKey(public string) error {
	if !nkeys.IsValidPublicUserKey(public) {
		return fmt.Errorf("%.60q is not the public part of a user's nkey, which begins with U", public)
	}
	return nil
}

// Public returns the part that others may know, "U...".
func (k Key) Public() string { return k.public }

// Seed returns the secret part.
func (k Key) Seed() ([]byte, error) {
	seed, err := k.pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("an nkey's seed: %w", err)
	}
	return seed, nil
}

// Format prints the public part, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { fmt.Fprint(f, k.public) }
