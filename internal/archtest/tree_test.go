package archtest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

func tree(t *testing.T) []Package {
	t.Helper()
	packages, err := Load(root)
	require.NoError(t, err)
	require.Greater(t, len(packages), 10, "the tree was not found")
	return packages
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, wrong := range Check(rules, tree(t)) {
		t.Error(wrong)
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, wrong := range Undocumented(tree(t)) {
		t.Error(wrong)
	}
}

func TestNoFileHoldsWhatMustNotBeCommitted(t *testing.T) {
	files, err := Files(root)
	require.NoError(t, err)
	require.Contains(t, files, "internal/archtest/tree_test.go")
	wrong, err := UnfitFiles(root, files)
	require.NoError(t, err)
	for _, w := range wrong {
		t.Error(w)
	}
}

// A table that allows a circle would describe a house that cannot be built.
func TestTheTableHasNoCircle(t *testing.T) {
	var visit func(pkg string, trail []string)
	visit = func(pkg string, trail []string) {
		for _, before := range trail {
			if before == pkg {
				t.Fatalf("circle: %s -> %s", strings.Join(trail, " -> "), pkg)
			}
		}
		rule, ok := find(rules, pkg)
		if !ok {
			t.Errorf("%s is allowed to %s and has no row", pkg, trail[len(trail)-1])
			return
		}
		for _, next := range rule.Ours {
			if !strings.Contains(next, "...") && !strings.HasPrefix(next, "<") {
				visit(next, append(trail[:len(trail):len(trail)], pkg))
			}
		}
	}
	for _, r := range rules {
		if !strings.Contains(r.Package, "...") {
			visit(r.Package, nil)
		}
	}
}

func TestRootIsTheModule(t *testing.T) {
	data, err := filepath.Glob(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	assert.Len(t, data, 1)
}
