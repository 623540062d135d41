package shops;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.javaoperatorsdk.operator.api.config.informer.InformerEventSourceConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.Cleaner;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.DeleteControl;
import io.javaoperatorsdk.operator.api.reconciler.EventSourceContext;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.processing.event.source.EventSource;
import io.javaoperatorsdk.operator.processing.event.source.informer.InformerEventSource;
import java.util.List;

/** Owns a ConfigMap for each shop, and tells in its status how many shelves there are. */
@ControllerConfiguration
public class Keeper implements Reconciler<Shop>, Cleaner<Shop> {
  @Override
  public List<EventSource<?, Shop>> prepareEventSources(EventSourceContext<Shop> context) {
    var owned =
        InformerEventSourceConfiguration.from(ConfigMap.class, Shop.class)
            .withNamespacesInheritedFromController()
            .build();
    return List.of(new InformerEventSource<>(owned, context));
  }

  @Override
  public UpdateControl<Shop> reconcile(Shop shop, Context<Shop> context) {
    var map =
        new ConfigMapBuilder()
            .withNewMetadata()
            .withName(shop.getMetadata().getName())
            .withNamespace(shop.getMetadata().getNamespace())
            .endMetadata()
            .addToData("goods", shop.getSpec().goods)
            .build();
    map.addOwnerReference(shop);
    context.getClient().resource(map).forceConflicts().serverSideApply();
    var status = new Shop();
    status.getMetadata().setName(shop.getMetadata().getName());
    status.getMetadata().setNamespace(shop.getMetadata().getNamespace());
    status.setStatus(new Shop.Status());
    status.getStatus().shelves = shop.getSpec().shelves;
    return UpdateControl.patchStatus(status);
  }

  @Override
  public DeleteControl cleanup(Shop shop, Context<Shop> context) {
    return DeleteControl.defaultDelete();
  }
}
