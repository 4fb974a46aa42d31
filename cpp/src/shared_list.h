// A list that copies share: for what parts of a plan have in common.
#ifndef AOT_SRC_SHARED_LIST_H_
#define AOT_SRC_SHARED_LIST_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace aot_rt {

// Read like a vector. Filled before it is copied: copies see what is added, too.
template <typename Item>
class SharedList {
 public:
  void push_back(Item item) { items_->push_back(std::move(item)); }

  size_t size() const { return items_->size(); }
  bool empty() const { return items_->empty(); }
  const Item& operator[](size_t index) const { return (*items_)[index]; }
  const Item& front() const { return items_->front(); }
  typename std::vector<Item>::const_iterator begin() const { return items_->begin(); }
  typename std::vector<Item>::const_iterator end() const { return items_->end(); }
  operator const std::vector<Item>&() const { return *items_; }  // NOLINT: stands for it

 private:
  std::shared_ptr<std::vector<Item>> items_ = std::make_shared<std::vector<Item>>();
};

}  // namespace aot_rt

#endif  // AOT_SRC_SHARED_LIST_H_
