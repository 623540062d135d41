// A small operator with @kubernetes/client-node, and its test: what it prints must be the same with every API server.

import { readFileSync } from "node:fs";
import * as k8s from "@kubernetes/client-node";

const GROUP = "node.example.com";
const NAMESPACE = "node-operator";
const SHOPS = 30;

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);
const custom = config.makeApiClient(k8s.CustomObjectsApi);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const about = { group: GROUP, version: "v1", plural: "shops", namespace: NAMESPACE };

const shop = (name, shelves) => ({
  apiVersion: `${GROUP}/v1`,
  kind: "Shop",
  metadata: { name, namespace: NAMESPACE },
  spec: { shelves, goods: "bread milk" },
});

const headers = (type) => k8s.setHeaderOptions("Content-Type", type);

async function until(what, holds) {
  for (let look = 0; look < 1200; look++) {
    if (await holds()) {
      console.log(what);
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not within a minute: ${what}`);
}

async function refused(what, request) {
  try {
    await request;
    console.log(`${what}: accepted`);
  } catch (error) {
    const status = typeof error.body === "string" ? JSON.parse(error.body) : error.body;
    console.log(`${what}: ${error.code} ${status?.reason} ${status?.message}`);
  }
}

async function missing(read) {
  try {
    await read;
    return false;
  } catch (error) {
    if (error.code !== 404) throw error;
    return true;
  }
}

const definition = k8s.loadYaml(readFileSync(process.argv[2], "utf8"));
await objects.create(definition);
const { name } = definition.metadata;
await until("established", async () =>
  (await definitions.readCustomResourceDefinition({ name })).status?.conditions?.some(
    (each) => each.type === "Established" && each.status === "True",
  ),
);
await core.createNamespace({ body: { metadata: { name: NAMESPACE } } });

// The operator: a ConfigMap for each shop, and its shelves in the status.
const seen = new Map();
const informer = k8s.makeInformer(config, `/apis/${GROUP}/v1/namespaces/${NAMESPACE}/shops`, () =>
  custom.listNamespacedCustomObject(about),
);
async function keep(object) {
  const { name, uid } = object.metadata;
  seen.set(name, object);
  if (object.status?.shelves === object.spec.shelves) return;
  const ownerReferences = [{ apiVersion: object.apiVersion, kind: "Shop", name, uid, controller: true }];
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: NAMESPACE, ownerReferences }, data: { goods: object.spec.goods } };
  await objects.patch(map, undefined, undefined, "keeper", true, k8s.PatchStrategy.ServerSideApply);
  await custom.patchNamespacedCustomObjectStatus(
    { ...about, name, body: { status: { shelves: object.spec.shelves } } },
    headers("application/merge-patch+json"),
  );
}
informer.on("add", keep);
informer.on("update", keep);
informer.on("delete", (object) => seen.delete(object.metadata.name));
informer.on("error", (error) => {
  console.error(`watching again: ${error}`);
  setTimeout(() => informer.start(), 100);
});
await informer.start();

for (let number = 0; number < SHOPS; number++) {
  await custom.createNamespacedCustomObject({ ...about, body: shop(`s${number}`, 1) });
}
const all = (holds) => () => seen.size === SHOPS && [...seen.values()].every(holds);
await until("all have their status", all((each) => each.status?.shelves === 1));
for (let number = 0; number < SHOPS; number++) {
  const body = [{ op: "replace", path: "/spec/shelves", value: number + 2 }];
  await custom.patchNamespacedCustomObject({ ...about, name: `s${number}`, body }, headers("application/json-patch+json"));
}
await until("all were changed", all((each) => each.spec.shelves > 1 && each.status?.shelves === each.spec.shelves));

const sizes = [];
let next;
do {
  const page = await custom.listNamespacedCustomObject({ ...about, limit: 12, _continue: next });
  sizes.push(page.items.length);
  next = page.metadata._continue ?? page.metadata.continue;
} while (next);
console.log(`pages ${sizes}`);
const one = await custom.listNamespacedCustomObject({ ...about, fieldSelector: "metadata.name=s7" });
console.log(`selected ${one.items.length}`);
const scale = await custom.patchNamespacedCustomObjectScale(
  { ...about, name: "s7", body: { spec: { replicas: 50 } } },
  headers("application/merge-patch+json"),
);
console.log(`scaled ${scale.spec.replicas}`);
const owned = await core.readNamespacedConfigMap({ namespace: NAMESPACE, name: "s7" });
console.log(`owned ${JSON.stringify(owned.data)} ${owned.metadata.ownerReferences[0].name}`);
await refused("it exists", custom.createNamespacedCustomObject({ ...about, body: shop("s7", 1) }));
await refused("no shelves", custom.createNamespacedCustomObject({ ...about, body: shop("none", 0) }));
await refused("a large one", custom.createNamespacedCustomObject({ ...about, body: shop("large", 101) }));
await refused("not found", custom.getNamespacedCustomObject({ ...about, name: "none" }));
const stale = shop("s7", 3);
stale.metadata.resourceVersion = "1";
await refused("stale", custom.replaceNamespacedCustomObject({ ...about, name: "s7", body: stale }));
const other = { ...shop("s7", 9), spec: { shelves: 9 } };
await refused("another manager", objects.patch(other, undefined, undefined, "other", false, k8s.PatchStrategy.ServerSideApply));
await refused("a dry run", custom.createNamespacedCustomObject({ ...about, body: shop("dry", 1), dryRun: "All" }));
await refused("of a dry run", custom.getNamespacedCustomObject({ ...about, name: "dry" }));
const secret = await core.createNamespacedSecret({ namespace: NAMESPACE, body: { metadata: { name: "a" }, stringData: { b: "c" } } });
console.log(`secret ${secret.type} ${JSON.stringify(secret.data)}`);

await custom.deleteCollectionNamespacedCustomObject(about);
await until("all are gone", () => seen.size === 0);
await until("garbage is collected", async () =>
  (await core.listNamespacedConfigMap({ namespace: NAMESPACE })).items.every((each) => !each.metadata.ownerReferences),
);
await informer.stop();
await core.deleteNamespace({ name: NAMESPACE });
await until("the namespace is gone", () => missing(core.readNamespace({ name: NAMESPACE })));
await definitions.deleteCustomResourceDefinition({ name });
await until("the definition is gone", () => missing(definitions.readCustomResourceDefinition({ name })));
process.exit(0);
