package shops;

import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;

@Group("java.example.com")
@Version("v1")
public class Shop extends CustomResource<Shop.Spec, Shop.Status> implements Namespaced {
  public static class Spec {
    public int shelves;
    public String goods = "bread milk";
  }

  public static class Status {
    public int shelves;
  }

  static Shop of(String name, int shelves) {
    var shop = new Shop();
    shop.getMetadata().setName(name);
    shop.getMetadata().setNamespace(Main.NAMESPACE);
    shop.setSpec(new Spec());
    shop.getSpec().shelves = shelves;
    return shop;
  }
}
