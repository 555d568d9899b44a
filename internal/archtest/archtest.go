// Package archtest holds the tests about the source tree itself: which package may import which, and a
// few things that no file may contain.
//
// The rules are the table in rules.go. A package without a row does not exist; to add one, add its row,
// and its reason to DESIGN.md. Only code that is not a test is held to the table, whatever its build
// tags, so that an import for another system counts too.
package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the import path of the module; a package is named by what follows it.
const module = "github.com/agentcompact/agentcompact"

// Rule says what one package may import outside of its tests.
type Rule struct {
	// Package is a package of ours, or with "/..." at its end every package below. The most exact rule
	// counts, and it counts alone.
	Package string
	// Ours are the packages of this module that it may import, in the same notation. [Public] stands for
	// every package that is not in an internal folder and not a test kit.
	Ours []string
	// Modules are the paths of the modules that it may import besides the standard library. [Any] allows
	// all.
	Modules []string
}

const (
	// Public among Ours stands for all public packages but the test kits.
	Public = "<public>"
	// Kits among Ours stands for all test kits.
	Kits = "<kits>"
	// Any among Modules allows every module.
	Any = "<any>"
)

// Package is what the files of one folder say.
type Package struct {
	// Path is relative to the module, with slashes; "." is its root.
	Path, Name string
	// Doc is the package comment of a file that is no test.
	Doc string
	// Imports are the import paths of files that are no tests, each with one file that has it.
	Imports map[string]string
	// TestOnly is set if every file is a test.
	TestOnly bool
}

// kit reports whether a package is the test kit of another, and of which.
func kit(pkg string) (of string, ok bool) {
	of = path.Dir(pkg)
	return of, of != "." && path.Base(pkg) == path.Base(of)+"test"
}

// matches reports whether a package is named by a pattern.
func matches(pattern, pkg string) bool {
	switch pattern {
	case Public:
		_, isKit := kit(pkg)
		return !isKit && !strings.Contains("/"+pkg, "/internal/") && pkg != "testdata"
	case Kits:
		_, isKit := kit(pkg)
		return isKit
	}
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(pkg, below+"/")
	}
	return pattern == pkg
}

// find returns the rule of a package. A test kit without a row may import its package, whatever that may
// import, and the other kits.
func find(rules []Rule, pkg string) (Rule, bool) {
	best := -1
	for i, r := range rules {
		if matches(r.Package, pkg) && (best < 0 || len(r.Package) > len(rules[best].Package) || r.Package == pkg) {
			best = i
			if r.Package == pkg {
				break
			}
		}
	}
	if of, isKit := kit(pkg); isKit && (best < 0 || rules[best].Package != pkg) {
		if r, ok := find(rules, of); ok {
			return Rule{
				Package: pkg,
				Ours:    append([]string{of, Kits}, r.Ours...),
				Modules: append(slices.Clone(kitModules), r.Modules...),
			}, true
		}
	}
	if best < 0 {
		return Rule{}, false
	}
	return rules[best], true
}

// Check compares packages with rules and returns one line for each import, or package, that breaks them.
func Check(rules []Rule, packages []Package) []string {
	var wrong []string
	for _, p := range packages {
		if p.TestOnly {
			continue
		}
		rule, ok := find(rules, p.Path)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s: no such package in the table of internal/archtest/rules.go", p.Path))
			continue
		}
		for imp, file := range p.Imports {
			if reason := refuse(rule, p, imp); reason != "" {
				wrong = append(wrong, fmt.Sprintf("%s -> %s (%s): %s", p.Path, strings.TrimPrefix(imp, module+"/"), file, reason))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// refuse says why a package may not import something, or nothing if it may.
func refuse(rule Rule, p Package, imp string) string {
	if rel, ok := strings.CutPrefix(imp, module+"/"); ok {
		if slices.ContainsFunc(rule.Ours, func(pattern string) bool { return matches(pattern, rel) }) {
			return ""
		}
		return "not among the imports that the table allows: " + strings.Join(rule.Ours, ", ")
	}
	first, _, _ := strings.Cut(imp, "/")
	if !strings.Contains(first, ".") { // the standard library
		if (imp == "testing" || strings.HasPrefix(imp, "testing/")) && !strings.HasSuffix(p.Path, "test") {
			return "only packages whose name ends in test may import testing"
		}
		return ""
	}
	for _, m := range rule.Modules {
		if m == Any || imp == m || strings.HasPrefix(imp, m+"/") {
			return ""
		}
	}
	return "not among the modules that the table allows: " + strings.Join(rule.Modules, ", ")
}

// Undocumented returns the packages whose comment is missing or does not begin as it should.
func Undocumented(packages []Package) []string {
	var wrong []string
	for _, p := range packages {
		switch {
		case p.Doc == "" && !p.TestOnly:
			wrong = append(wrong, p.Path+": no package comment")
		case p.Doc != "" && p.Name != "main" && !p.TestOnly && !strings.HasPrefix(p.Doc, "Package "+p.Name+" "):
			wrong = append(wrong, fmt.Sprintf("%s: the package comment must begin with %q", p.Path, "Package "+p.Name))
		}
	}
	return wrong
}

// Load reads the package clause, comment and imports of every Go file below root. Folders called testdata
// are left out, except the one at the root, and so are hidden ones and those that begin with "_".
func Load(root string) ([]Package, error) {
	found := map[string]*Package{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		name := entry.Name()
		if entry.IsDir() {
			hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
			if rel != "." && (hidden || name == "testdata" && rel != "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		dir := path.Dir(rel)
		p := found[dir]
		if p == nil {
			p = &Package{Path: dir, Imports: map[string]string{}, TestOnly: true}
			found[dir] = p
		}
		return p.read(file, rel)
	})
	if err != nil {
		return nil, fmt.Errorf("read packages: %w", err)
	}
	var packages []Package
	for _, p := range found {
		packages = append(packages, *p)
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Path, b.Path) })
	return packages, nil
}

func (p *Package) read(file, rel string) error {
	src, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), rel, src, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	if strings.HasSuffix(rel, "_test.go") {
		return nil
	}
	p.TestOnly = false
	p.Name = f.Name.Name
	if doc := comment(f); doc != "" {
		p.Doc = doc
	}
	for _, spec := range f.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		p.Imports[imp] = rel
	}
	return nil
}

func comment(f *ast.File) string {
	if f.Doc == nil {
		return ""
	}
	return strings.TrimSpace(f.Doc.Text())
}
