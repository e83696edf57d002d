// Shows the server's own description of its API; everything comes from this server.
window.addEventListener("DOMContentLoaded", () => {
  SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#api",
    deepLinking: true,
    validatorUrl: null, // it would tell a stranger's server about this one
    persistAuthorization: false,
    tryItOutEnabled: true,
  });
});
