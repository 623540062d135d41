package shops;

import io.fabric8.kubernetes.api.model.DeletionPropagation;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.SecretBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import io.javaoperatorsdk.operator.Operator;
import io.javaoperatorsdk.operator.api.config.LeaderElectionConfiguration;
import java.io.FileInputStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** An operator of the Java Operator SDK and its test: what it prints must be the same with every API server. */
public class Main {
  static final String NAMESPACE = "java-operator";
  static final int SHOPS = 30;

  public static void main(String[] arguments) throws Exception {
    try (KubernetesClient client = new KubernetesClientBuilder().build()) {
      test(client, arguments[0]);
    }
    System.exit(0); // stopping the operator would exit with 1, since it leads no longer
  }

  static void test(KubernetesClient client, String manifest) throws Exception {
    var definitions = client.apiextensions().v1().customResourceDefinitions();
    var definition = definitions.load(new FileInputStream(manifest)).item();
    client.resource(definition).serverSideApply();
    var named = definitions.withName(definition.getMetadata().getName());
    named.waitUntilCondition(
        each ->
            each != null
                && each.getStatus() != null
                && each.getStatus().getConditions().stream()
                    .anyMatch(it -> it.getType().equals("Established") && it.getStatus().equals("True")),
        30,
        TimeUnit.SECONDS);
    System.out.println("established");
    var namespace = new NamespaceBuilder().withNewMetadata().withName(NAMESPACE).endMetadata().build();
    client.resource(namespace).create();

    var operator =
        new Operator(
            overrider ->
                overrider
                    .withKubernetesClient(client)
                    .withCloseClientOnStop(false)
                    .withLeaderElectionConfiguration(new LeaderElectionConfiguration("keeper", NAMESPACE)));
    operator.register(new Keeper(), settings -> settings.settingNamespace(NAMESPACE));
    operator.start();

    var shops = client.resources(Shop.class).inNamespace(NAMESPACE);
    try (SharedIndexInformer<Shop> informer = shops.inform()) {
      for (int number = 0; number < SHOPS; number++) {
        client.resource(Shop.of("s" + number, 1)).create();
      }
      until(
          informer,
          "all have their status",
          all -> all.size() == SHOPS && all.stream().allMatch(it -> it.getStatus() != null && it.getStatus().shelves == 1));
      for (int number = 0; number < SHOPS; number++) {
        int shelves = number + 2;
        shops.withName("s" + number).edit(shop -> {
          shop.getSpec().shelves = shelves;
          return shop;
        });
      }
      until(
          informer,
          "all were changed",
          all -> all.stream().allMatch(it -> it.getSpec().shelves > 1 && it.getStatus().shelves == it.getSpec().shelves));
      rest(client);
      shops.delete();
      until(informer, "all are gone", Collection::isEmpty);
    }
    client.configMaps().inNamespace(NAMESPACE).withName("s7").waitUntilCondition(each -> each == null, 60, TimeUnit.SECONDS);
    System.out.println("garbage is collected");
    client.namespaces().withName(NAMESPACE).delete();
    client.namespaces().withName(NAMESPACE).waitUntilCondition(each -> each == null, 60, TimeUnit.SECONDS);
    named.withPropagationPolicy(DeletionPropagation.FOREGROUND).delete();
    named.waitUntilCondition(each -> each == null, 60, TimeUnit.SECONDS);
    System.out.println("the definition is gone");
  }

  /** Requests of each kind, and what is refused. */
  static void rest(KubernetesClient client) throws Exception {
    var shops = client.resources(Shop.class).inNamespace(NAMESPACE);
    var sizes = new ArrayList<Integer>();
    var options = new ListOptionsBuilder().withLimit(12L).build();
    do {
      var page = shops.list(options);
      sizes.add(page.getItems().size());
      options.setContinue(page.getMetadata().getContinue());
    } while (options.getContinue() != null && !options.getContinue().isEmpty());
    System.out.println("pages " + sizes);
    System.out.println("selected " + shops.withField("metadata.name", "s7").list().getItems().size());
    System.out.println("scale " + shops.withName("s7").scale().getSpec().getReplicas());
    var scaled = shops.withName("s7").scale(50);
    System.out.println("scaled " + scaled.getSpec().shelves);
    var owned = client.configMaps().inNamespace(NAMESPACE).withName("s7").get();
    System.out.println("owned " + owned.getData() + " " + owned.getMetadata().getOwnerReferences().get(0).getName());
    refused("it exists", () -> client.resource(Shop.of("s7", 1)).create());
    refused("no shelves", () -> client.resource(Shop.of("none", 0)).create());
    refused("a large one", () -> client.resource(Shop.of("large", 101)).create());
    refused("not found", () -> client.resource(Shop.of("none", 1)).replace());
    refused(
        "stale",
        () -> {
          var stale = Shop.of("s7", 3);
          stale.getMetadata().setResourceVersion("1");
          client.resource(stale).update();
        });
    refused(
        "another manager",
        () -> {
          var context = new PatchContext.Builder().withPatchType(PatchType.SERVER_SIDE_APPLY).withFieldManager("other").build();
          shops.withName("s7").patch(context, "{\"apiVersion\":\"java.example.com/v1\",\"kind\":\"Shop\",\"spec\":{\"shelves\":9}}");
        });
    refused("a dry run", () -> client.resource(Shop.of("dry", 1)).dryRun(true).create());
    System.out.println("of a dry run " + shops.withName("dry").get());
    var generic = client.genericKubernetesResources("java.example.com/v1", "Shop").inNamespace(NAMESPACE).withName("s7").get();
    System.out.println("generic " + generic.<Object>get("spec", "shelves"));
    var secret = new SecretBuilder().withNewMetadata().withName("a").withNamespace(NAMESPACE).endMetadata().addToStringData("b", "c").build();
    System.out.println("secret " + client.resource(secret).create().getData());
    System.out.println("server " + List.of(client.getKubernetesVersion().getMajor(), client.supports(Shop.class)));
    var lease = client.leases().inNamespace(NAMESPACE).withName("keeper").get();
    System.out.println("lease " + (lease.getSpec().getHolderIdentity() != null));
  }

  interface Request {
    void run() throws Exception;
  }

  static void refused(String what, Request request) throws Exception {
    try {
      request.run();
      System.out.println(what + ": accepted");
    } catch (KubernetesClientException error) {
      var status = error.getStatus();
      System.out.println(what + ": " + error.getCode() + " " + (status == null ? "" : status.getReason() + " " + status.getMessage()));
    }
  }

  static void until(SharedIndexInformer<Shop> informer, String what, Predicate<Collection<Shop>> holds) throws Exception {
    for (int look = 0; look < 1200; look++) {
      if (holds.test(informer.getStore().list())) {
        System.out.println(what);
        return;
      }
      Thread.sleep(50);
    }
    throw new IllegalStateException("not within a minute: " + what);
  }
}
