//! Three sites over an IP network: where everything is, laid out in namespaces.

use std::fmt::Write;
use std::net::Ipv4Addr;

use crate::error::{Error, Result};
use crate::namespace::{self, Namespace, call};
use crate::network::{set_if_there, take_down};
use crate::shutdown::Shutdown;

/// The address that forwarders send Interests for other sites to. Nobody has it, and the router has no route to it.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The controller's address.
pub const CONTROLLER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The TCP port that it listens at.
pub const CONTROLLER_PORT: u16 = 6653;

/// A site: a forwarder with its applications, and a switch before it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its number, from 1 on: also that of its switch.
    pub number: u8,
    /// What it is called, which is also the first component of its names.
    pub name: &'static str,
    /// Where it is.
    pub place: &'static str,
}

/// The seed's sites.
pub const SITES: [Site; 3] = [
    Site { number: 1, name: "tno", place: "TNO, the Netherlands" },
    Site { number: 2, name: "csu", place: "Colorado State University, USA" },
    Site { number: 3, name: "ncar", place: "NCAR, Wyoming, USA" },
];

impl Site {
    /// The address of its forwarder.
    pub const fn forwarder(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.number, 0, 2)
    }

    /// The Ethernet address of its forwarder.
    pub fn forwarder_mac(&self) -> String {
        format!("02:00:00:00:0{}:02", self.number)
    }

    /// The Ethernet address of the router's interface towards it.
    pub fn router_mac(&self) -> String {
        format!("02:00:00:00:0{}:01", self.number)
    }

    /// A name below the site's.
    pub fn prefix(&self, what: &str) -> String {
        format!("/{}/{what}", self.name)
    }
}

/// The namespaces of the sites, the router and the controller. When this goes out of scope, they are taken down.
#[derive(Debug)]
pub struct Sites {
    prefix: String,
}

impl Sites {
    /// Lays everything out.
    ///
    /// # Errors
    /// When there are namespaces of the same prefix already, or the operating system refuses something.
    pub fn set_up(prefix: &str, shutdown: &Shutdown) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        if let Some(there) = namespace::with_prefix(&format!("{prefix}-"))?.first() {
            return Err(Error::Busy(format!(
                "the namespace {} is there already: another testbed is up, or was left by a run that was killed; \
                 `heddle testbed down` ends and removes whichever it is",
                there.name()
            )));
        }
        let sites = Self { prefix: prefix.to_owned() };
        sites.make_namespaces()?;
        shutdown.check()?;
        sites.make_links()?;
        Ok(sites)
    }

    /// The namespace of a site's forwarder and its applications.
    pub fn island(&self, site: &Site) -> Namespace {
        self.named(site.name)
    }

    /// The namespace of a site's switch.
    pub fn switch(&self, site: &Site) -> Namespace {
        self.named(&format!("{}-sw", site.name))
    }

    /// The namespace of the controller.
    pub fn controller(&self) -> Namespace {
        self.named("controller")
    }

    /// The namespace of the router that knows nothing of names.
    pub fn router(&self) -> Namespace {
        self.named("router")
    }

    fn named(&self, node: &str) -> Namespace {
        Namespace::named(format!("{}-{node}", self.prefix))
    }

    fn all(&self) -> Vec<Namespace> {
        let sites = SITES.iter().flat_map(|site| [self.island(site), self.switch(site)]);
        [self.router(), self.controller()].into_iter().chain(sites).collect()
    }

    fn make_namespaces(&self) -> Result<()> {
        let all = self.all();
        let batch: String =
            all.iter().map(|namespace| format!("netns add {}\n", namespace.name())).collect();
        call("ip", &["-batch", "-"], &batch)?;
        for namespace in all {
            let forwards = if namespace == self.router() { "1" } else { "0" };
            namespace.enter(|| {
                for scope in ["all", "default"] {
                    set_if_there(&format!("ipv6/conf/{scope}/disable_ipv6"), "1")?;
                    set_if_there(&format!("ipv4/conf/{scope}/rp_filter"), "0")?;
                }
                set_if_there("ipv4/ip_forward", forwards)
            })?;
        }
        Ok(())
    }

    /// Links and addresses: each forwarder is behind its switch, whose two ports have no address; all the rest is IP.
    fn make_links(&self) -> Result<()> {
        let router = self.router();
        let mut links = String::new();
        let mut link = |a: (&Namespace, &str), b: (&Namespace, &str)| {
            let _ = writeln!(
                links,
                "link add {} netns {} type veth peer name {} netns {}",
                a.1,
                a.0.name(),
                b.1,
                b.0.name()
            );
        };
        for site in &SITES {
            let (island, switch) = (self.island(site), self.switch(site));
            link((&island, "eth0"), (&switch, "island"));
            link((&switch, "network"), (&router, site.name));
            link((&switch, "control"), (&router, &format!("{}-sw", site.name)));
        }
        link((&self.controller(), "eth0"), (&router, "controller"));
        call("ip", &["-batch", "-"], &links)?;

        let mut at_router =
            String::from("addr add 10.0.0.1/24 dev controller\nlink set controller up\n");
        for site in &SITES {
            let Site { number, name, .. } = site;
            let _ = writeln!(
                at_router,
                "link set {name} address {}\naddr add 10.{number}.0.1/24 dev {name}\nlink set {name} up\n\
                 addr add 10.{number}.1.1/24 dev {name}-sw\nlink set {name}-sw up",
                site.router_mac()
            );
            configure(
                &self.island(site),
                &["eth0"],
                &format!(
                    "link set lo up\nlink set eth0 address {}\naddr add {}/24 dev eth0\nlink set eth0 up\n\
                     route add default via 10.{number}.0.1\n",
                    site.forwarder_mac(),
                    site.forwarder()
                ),
            )?;
            configure(
                &self.switch(site),
                &["island", "network", "control"],
                &format!(
                    "link set lo up\nlink set island promisc on up\nlink set network promisc on up\n\
                     addr add 10.{number}.1.2/24 dev control\nlink set control up\nroute add default via 10.{number}.1.1\n"
                ),
            )?;
        }
        let mut of_router = vec!["controller"];
        of_router.extend(SITES.iter().map(|site| site.name));
        configure(&router, &of_router, &at_router)?;
        configure(
            &self.controller(),
            &["eth0"],
            &format!(
                "link set lo up\naddr add {CONTROLLER}/24 dev eth0\nlink set eth0 up\nroute add default via 10.0.0.1\n"
            ),
        )
    }
}

/// A frame must be on a link what it says: of its own size, with its checksum.
fn configure(namespace: &Namespace, interfaces: &[&str], batch: &str) -> Result<()> {
    namespace.enter(|| {
        for name in interfaces {
            let off = ["-K", name, "tx", "off", "tso", "off", "gso", "off", "gro", "off"];
            call("ethtool", &off, "")?;
        }
        call("ip", &["-batch", "-"], batch).map(drop)
    })
}

impl Drop for Sites {
    fn drop(&mut self) {
        if let Err(error) = take_down(&self.prefix) {
            eprintln!("the sites were not taken down entirely: {error}");
        }
    }
}
