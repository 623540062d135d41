//! An operator with kube-rs, and its test: what it prints must be the same with every API server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace, ObjectReference, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    discovery,
    runtime::{
        Controller, WatchStreamExt,
        controller::Action,
        events::{Event, EventType, Recorder, Reporter},
        finalizer::{Event as Finalizer, finalizer},
        reflector,
        wait::{await_condition, conditions},
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const NAMESPACE: &str = "kube-rs";
const MANAGER: &str = "shopkeeper";
const SHOPS: usize = 30;

/// A shop that wants a number of shelves.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "kube-rs.example.com",
    version = "v1",
    kind = "Shop",
    namespaced,
    status = "ShopStatus",
    shortname = "sp",
    scale(spec_replicas_path = ".spec.shelves", status_replicas_path = ".status.shelves"),
    printcolumn(name = "Shelves", type_ = "integer", json_path = ".spec.shelves"),
    validation = Rule::new("self.spec.shelves <= 100").message("no shop is that large")
)]
struct ShopSpec {
    #[schemars(range(min = 1))]
    shelves: i32,
    #[serde(default)]
    goods: Vec<String>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct ShopStatus {
    shelves: i32,
}

#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Failed {}

type Anything = Box<dyn std::error::Error + Send + Sync>;

async fn reconcile(shop: Arc<Shop>, client: Arc<Client>) -> Result<Action, Failed> {
    let shops: Api<Shop> = Api::namespaced((*client).clone(), NAMESPACE);
    finalizer(&shops, "kube-rs.example.com/keeper", shop, |event| async {
        match event {
            Finalizer::Apply(shop) => keep(&shop, &client).await,
            Finalizer::Cleanup(_) => Ok(Action::await_change()),
        }
    })
    .await
    .map_err(|error| Failed(format!("{error:?}")))
}

/// Own a ConfigMap, and tell how many shelves there are.
async fn keep(shop: &Shop, client: &Client) -> Result<Action, kube::Error> {
    let apply = PatchParams::apply(MANAGER).force();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(shop.name_any()),
            owner_references: Some(vec![shop.controller_owner_ref(&()).expect("it has a name and a uid")]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("goods".to_owned(), shop.spec.goods.join(" "))])),
        ..ConfigMap::default()
    };
    maps.patch(&shop.name_any(), &apply, &Patch::Apply(&map)).await?;
    let shops: Api<Shop> = Api::namespaced(client.clone(), NAMESPACE);
    let status = json!({"apiVersion": Shop::api_version(&()), "kind": Shop::kind(&()), "status": {"shelves": shop.spec.shelves}});
    shops.patch_status(&shop.name_any(), &apply, &Patch::Apply(&status)).await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

fn shop(name: &str, shelves: i32) -> Shop {
    Shop::new(name, ShopSpec { shelves, goods: vec!["bread".to_owned(), "milk".to_owned()] })
}

/// Until each shop in the reflector's store is as wanted.
async fn until(store: &reflector::Store<Shop>, what: &str, holds: impl Fn(&[Arc<Shop>]) -> bool) -> Result<(), Anything> {
    for _ in 0..1200 {
        if holds(&store.state()) {
            println!("{what}");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("not within a minute: {what}; {:?}", store.state()).into())
}

fn refused<T>(what: &str, answer: kube::Result<T>) {
    match answer {
        Ok(_) => println!("{what}: accepted"),
        Err(kube::Error::Api(status)) => println!("{what}: {} {}: {}", status.code, status.reason, status.message),
        Err(error) => println!("{what}: {error:?}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Anything> {
    let client = Client::try_default().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply(MANAGER).force();
    let name = Shop::crd().name_any();
    definitions.patch(&name, &apply, &Patch::Apply(Shop::crd())).await?;
    tokio::time::timeout(
        Duration::from_secs(30),
        await_condition(definitions.clone(), &name, conditions::is_crd_established()),
    )
    .await??;
    println!("established {name}");

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NAMESPACE.to_owned());
    namespaces.create(&PostParams::default(), &namespace).await?;
    let found = discovery::group(&client, "kube-rs.example.com").await?;
    for (resource, capabilities) in found.recommended_resources() {
        let mut verbs = capabilities.operations.clone();
        verbs.sort();
        println!("{} {} {:?} {verbs:?}", resource.kind, resource.plural, capabilities.scope);
    }

    let shops: Api<Shop> = Api::namespaced(client.clone(), NAMESPACE);
    let (store, writer) = reflector::store();
    let seen = watcher(shops.clone(), watcher::Config::default().streaming_lists()).default_backoff().reflect(writer).touched_objects();
    tokio::spawn(seen.for_each(|_| async {}));
    let operator = Controller::new(shops.clone(), watcher::Config::default())
        .owns(Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE), watcher::Config::default())
        .run(
            reconcile,
            |_, error, _| {
                eprintln!("again: {error}");
                Action::requeue(Duration::from_millis(200))
            },
            Arc::new(client.clone()),
        );
    tokio::spawn(operator.for_each(|_| async {}));

    for number in 0..SHOPS {
        shops.create(&PostParams::default(), &shop(&format!("s{number}"), 1)).await?;
    }
    until(&store, "all have their status", |all| {
        all.len() == SHOPS && all.iter().all(|each| each.status.as_ref().is_some_and(|status| status.shelves == 1))
    })
    .await?;
    for number in 0..SHOPS {
        let patch = json!({"spec": {"shelves": 2 + number}});
        shops.patch(&format!("s{number}"), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    until(&store, "all were changed", |all| {
        all.iter().all(|each| each.spec.shelves > 1 && each.status.as_ref().is_some_and(|status| status.shelves == each.spec.shelves))
    })
    .await?;

    // Lists: by pages, of metadata alone, selected.
    let mut token: Option<String> = None;
    let mut sizes = Vec::new();
    loop {
        let mut params = ListParams::default().limit(12);
        params.continue_token = token;
        let page = shops.list(&params).await?;
        sizes.push((page.items.len(), page.metadata.remaining_item_count));
        token = page.metadata.continue_.filter(|each| !each.is_empty());
        if token.is_none() {
            break;
        }
    }
    println!("pages {sizes:?}");
    println!("metadata of {}", shops.list_metadata(&ListParams::default()).await?.items.len());
    println!("selected {}", shops.list(&ListParams::default().fields("metadata.name=s7")).await?.items.len());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let owned = maps.get("s7").await?;
    println!("owned {:?} {:?}", owned.data, owned.owner_references().iter().map(|each| &each.name).collect::<Vec<_>>());

    // Scale, JSON patch, replace, and what is refused.
    let scale = shops.patch_scale("s7", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 50}}))).await?;
    println!("scale {:?}", scale.spec.and_then(|spec| spec.replicas));
    let patch: Vec<serde_json::Value> = vec![json!({"op": "test", "path": "/spec/shelves", "value": 1})];
    let patch: Patch<Shop> = Patch::Json(serde_json::from_value(json!(patch))?);
    refused("a JSON patch whose test fails", shops.patch("s7", &PatchParams::default(), &patch).await);
    refused("it exists", shops.create(&PostParams::default(), &shop("s7", 1)).await);
    refused("no shelves", shops.create(&PostParams::default(), &shop("none", 0)).await);
    refused("a large one", shops.create(&PostParams::default(), &shop("large", 101)).await);
    refused("not found", shops.get("none").await);
    let mut stale = shop("s7", 3);
    stale.metadata.resource_version = Some("1".to_owned());
    refused("stale", shops.replace("s7", &PostParams::default(), &stale).await);
    let mine = json!({"apiVersion": Shop::api_version(&()), "kind": "Shop", "spec": {"shelves": 9}});
    refused("another manager", shops.patch("s7", &PatchParams::apply("other"), &Patch::Apply(&mine)).await);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    refused("a dry run", shops.create(&dry, &shop("dry", 1)).await);
    refused("of a dry run", shops.get("dry").await);

    // A watch of its own, with bookmarks, from a resourceVersion.
    let since = shops.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    shops.patch("s1", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}))).await?;
    let mut events = shops.watch(&WatchParams::default().labels("a=b").timeout(20), &since).await?.boxed();
    if let Some(WatchEvent::Added(added)) = events.try_next().await? {
        println!("watched {}", added.name_any());
    }

    // Built-in kinds that operators use.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "a"}, "stringData": {"b": "c"}}))?;
    let made = secrets.create(&PostParams::default(), &secret).await?;
    println!("secret {:?} {:?}", made.type_, made.data);
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.678901Z"}});
    let lease = leases.patch("a", &apply, &Patch::Apply(&lease)).await?;
    println!("lease {:?}", lease.spec);
    let recorder = Recorder::new(client.clone(), Reporter { controller: MANAGER.to_owned(), instance: None });
    let about: ObjectReference = shops.get("s7").await?.object_ref(&());
    let event = Event { type_: EventType::Normal, reason: "Kept".to_owned(), note: Some("well".to_owned()), action: "Keep".to_owned(), secondary: None };
    recorder.publish(&event, &about).await?;
    recorder.publish(&event, &about).await?;
    let told: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client.clone(), NAMESPACE);
    for each in told.list(&ListParams::default()).await? {
        println!("event {:?} {:?} {:?}", each.reason, each.note, each.series.map(|series| series.count));
    }

    // The end: finalizers, garbage, the namespace.
    shops.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until(&store, "all are gone", |all| all.is_empty()).await?;
    for _ in 0..1200 {
        if maps.list(&ListParams::default()).await?.items.iter().all(|each| each.owner_references().is_empty()) {
            println!("garbage is collected");
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
    tokio::time::timeout(Duration::from_secs(60), await_condition(namespaces.clone(), NAMESPACE, gone)).await??;
    println!("the namespace is gone");
    definitions.delete(&name, &DeleteParams::default()).await?;
    tokio::time::timeout(Duration::from_secs(60), await_condition(definitions, &name, gone)).await??;
    println!("the definition is gone");
    Ok(())
}

fn gone<K>(object: Option<&K>) -> bool {
    object.is_none()
}
