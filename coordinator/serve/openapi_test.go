package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/openapi3gen"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// describeRoutes makes the description of the routes from the types that they take and give.
func describeRoutes(t *testing.T) []byte {
	t.Helper()
	no := false
	strict := func(name string, of reflect.Type, _ reflect.StructTag, schema *openapi3.Schema) error {
		schema.Nullable = of.Kind() == reflect.Slice
		if of.Kind() == reflect.Struct && schema.Type.Is("object") {
			schema.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
		}
		return nil
	}
	generator := openapi3gen.NewGenerator(openapi3gen.SchemaCustomizer(strict))
	schema := func(value any) *openapi3.SchemaRef {
		ref, err := generator.NewSchemaRefForValue(value, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	failure := openapi3.NewResponse().WithDescription("what is wrong: a code for programs, a message for people").WithJSONSchemaRef(schema(client.Failure{}))
	d := &openapi3.T{
		OpenAPI: "3.0.3",
		Info:    &openapi3.Info{Title: "The coordinator of dbqpg", Version: "1", Description: "docs/coordinator.md explains the terms. Times are RFC 3339; durations are seconds where their name says so."},
		Paths:   openapi3.NewPaths(),
		Components: &openapi3.Components{SecuritySchemes: openapi3.SecuritySchemes{
			"token": {Value: openapi3.NewSecurityScheme().WithType("http").WithScheme("bearer").WithDescription("in place of a client's certificate")},
		}},
	}
	for _, r := range new(api).routes() {
		method, path, _ := strings.Cut(r.pattern, " ")
		path = strings.ReplaceAll(path, "...", "")
		o := &openapi3.Operation{Summary: r.summary, OperationID: operationID(method, path), Responses: openapi3.NewResponses(openapi3.WithName("default", failure))}
		for _, p := range r.parameters {
			o.Parameters = append(o.Parameters, &openapi3.ParameterRef{Value: openapi3.NewQueryParameter(p.name).WithDescription(p.description).WithSchema(schema(p.of).Value)})
		}
		if _, name, ok := strings.Cut(path, "{"); ok {
			o.Parameters = append(o.Parameters, &openapi3.ParameterRef{Value: openapi3.NewPathParameter(strings.TrimSuffix(name, "}")).WithSchema(openapi3.NewStringSchema())})
		}
		if r.takes != nil {
			o.RequestBody = &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(true).WithJSONSchemaRef(schema(r.takes))}
		}
		if path == "/v1/commands" {
			key := openapi3.NewHeaderParameter("Idempotency-Key").WithSchema(openapi3.NewStringSchema())
			o.Parameters = append(o.Parameters, &openapi3.ParameterRef{Value: key.WithDescription("executes the command once, however often it is sent with this key")})
		}
		done := openapi3.NewResponse().WithDescription("the answer")
		if _, raw := r.gives.([]byte); raw {
			done.Content = openapi3.NewContentWithSchema(openapi3.NewStringSchema().WithFormat("binary"), []string{"application/octet-stream"})
		} else {
			done.WithJSONSchemaRef(schema(r.gives))
		}
		o.Responses.Set("200", &openapi3.ResponseRef{Value: done})
		d.AddOperation(path, method, o)
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func operationID(method, path string) string {
	words := strings.FieldsFunc(strings.TrimPrefix(path, "/v1/"), func(r rune) bool { return strings.ContainsRune("/{}", r) })
	return strings.ToLower(method) + "_" + strings.Join(words, "_")
}

// The description that is served is that of the routes and of the types that they take and give.
func TestDescription(t *testing.T) {
	now := describeRoutes(t)
	if *update {
		if err := os.WriteFile("openapi.json", now, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(now, description) {
		t.Error("openapi.json is not that of the routes: go test ./coordinator/serve -run Description -update")
	}
	d, err := openapi3.NewLoader().LoadFromData(description)
	if err == nil {
		err = d.Validate(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// described returns a handler that answers as next does, and checks each answer, and each request that is not refused, against the
// description.
func described(t testing.TB, next http.Handler) http.Handler {
	d, err := openapi3.NewLoader().LoadFromData(description)
	if err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(d, openapi3.DisableExamplesValidation())
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { checkDescribed(t, router, next, w, r) })
}

func checkDescribed(t testing.TB, router routers.Router, next http.Handler, w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, r)
	asked := r.Clone(r.Context())
	if rest, run := strings.CutPrefix(asked.URL.Path, "/v1/runs/"); run { // a name may have slashes
		asked.URL.Path, asked.URL.RawPath = "/v1/runs/"+strings.ReplaceAll(rest, "/", "_"), ""
	}
	route, parameters, err := router.FindRoute(asked)
	if err == nil {
		input := &openapi3filter.RequestValidationInput{Request: asked, PathParams: parameters, Route: route, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		asked.Body = io.NopCloser(bytes.NewReader(body.Bytes()))
		if failed := openapi3filter.ValidateRequest(r.Context(), input); failed != nil && recorder.Code == http.StatusOK {
			t.Errorf("%s %s is answered, but not as described: %v", r.Method, r.URL, failed)
		}
		answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: recorder.Code, Header: recorder.Header(), Options: input.Options}
		answer.SetBodyBytes(recorder.Body.Bytes())
		if failed := openapi3filter.ValidateResponse(r.Context(), answer); failed != nil {
			t.Errorf("the answer to %s %s is not as described: %v", r.Method, r.URL, failed)
		}
	} else if recorder.Code == http.StatusOK && !slices.Contains([]string{"/healthz", "/readyz", "/v1/openapi.json"}, r.URL.Path) {
		t.Errorf("%s %s is answered and not described: %v", r.Method, r.URL, err)
	}
	for name, values := range recorder.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}
