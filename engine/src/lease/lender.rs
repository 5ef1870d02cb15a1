//! Of whom a thread holds units, so that it can put them back when it ends or holds another key's.

use alloc::sync::{Arc, Weak};
use core::cell::RefCell;

use super::hand::{HANDS, Held};
use super::{Stripe, Stripes};

thread_local! {
    static LENDERS: Lenders = const { Lenders([const { RefCell::new(None) }; HANDS]) };
}

/// By the place of a hand: the limiter's stripes, if units have been held of them. What is left of a limiter that is gone
/// is their memory.
#[derive(Debug)]
struct Lenders([RefCell<Option<Weak<[Stripe]>>>; HANDS]);

/// Notes that what is held at a place is to be of these stripes, and puts back what is held of others. `false` if the
/// thread is ending, and can hold nothing any more.
pub(super) fn note(place: usize, stripes: &Stripes, is_new: bool) -> bool {
    let note = |Lenders(lenders): &Lenders| {
        let mut lender = lenders[place].borrow_mut();
        if is_new {
            put_back(place, lender.as_ref());
        }
        let is_noted = |lender: &Weak<_>| core::ptr::addr_eq(lender.as_ptr(), Arc::as_ptr(stripes));
        if !lender.as_ref().is_some_and(is_noted) {
            *lender = Some(Arc::downgrade(stripes));
        }
    };
    LENDERS.try_with(note).is_ok()
}

/// Puts back what is held at a place, if its limiter is still there and nobody has used units behind it. What can not be
/// put back drains.
fn put_back(place: usize, lender: Option<&Weak<[Stripe]>>) {
    if let Some((key, held)) = Held::let_go(place)
        && let Some(stripes) = lender.and_then(Weak::upgrade)
        && let Some(stripe) = stripes.get(held.stripe)
    {
        stripe.entry(key).put_back(key, held.epoch, held.block);
    }
}

impl Drop for Lenders {
    fn drop(&mut self) {
        for (place, lender) in self.0.iter().enumerate() {
            put_back(place, lender.borrow().as_ref());
        }
    }
}
